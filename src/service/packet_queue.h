// Packets for a process that may not read yet: what its socket does not take waits here, in order.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "fabric/shm/socket.h"

namespace longshore {

class PacketQueue {
  public:
    void push(std::span<const std::byte> packet) { packets_.emplace_back(packet.begin(), packet.end()); }
    // What the socket takes now. Without a reader there is nothing left to say.
    void flush(const Fd& socket) {
        while (!packets_.empty()) {
            const Io io = send_packet(socket, packets_.front().data(), packets_.front().size());
            if (io == Io::kAgain) return;
            if (io == Io::kClosed) return packets_.clear();
            packets_.pop_front();
        }
    }
    void clear() { packets_.clear(); }
    bool empty() const { return packets_.empty(); }

  private:
    std::deque<std::vector<std::byte>> packets_;
};

}  // namespace longshore
