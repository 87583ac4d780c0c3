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
    // `descriptors` go with it, and stay open until then.
    void push(std::span<const std::byte> packet, std::span<const int> descriptors = {}) {
        packets_.push_back({{packet.begin(), packet.end()}, {descriptors.begin(), descriptors.end()}});
    }
    // What the socket takes now. Without a reader there is nothing left to say.
    void flush(const Fd& socket) {
        while (!packets_.empty()) {
            const auto& [packet, descriptors] = packets_.front();
            const Io io = send_packet(socket, packet.data(), packet.size(), descriptors);
            if (io == Io::kAgain) return;
            if (io == Io::kClosed) return packets_.clear();
            packets_.pop_front();
        }
    }
    void clear() { packets_.clear(); }
    bool empty() const { return packets_.empty(); }

  private:
    struct Packet {
        std::vector<std::byte> bytes;
        std::vector<int> descriptors;
    };
    std::deque<Packet> packets_;
};

}  // namespace longshore
