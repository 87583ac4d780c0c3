// Packets for a process that may not read now: what its socket does not take waits here, in order. How much
// may wait is the sender's to bound, by what it hears or says of that process. One thread.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "fabric/shm/socket.h"

namespace longshore {

class PacketQueue {
  public:
    // Sends the packet after what waits, or keeps it, with duplicates of its descriptors. False: nobody reads
    // any more and nothing waits, or there is no descriptor left to keep it with.
    bool send(const Fd& socket, std::span<const std::byte> packet, std::span<const int> descriptors = {}) {
        if (!flush(socket)) return false;
        if (packets_.empty()) {
            const Io io = send_packet(socket, packet.data(), packet.size(), descriptors);
            if (io != Io::kAgain) return io == Io::kOk;
        }
        Packet kept{{packet.begin(), packet.end()}, {}};
        for (const int descriptor : descriptors) {
            kept.descriptors.emplace_back(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
            if (!kept.descriptors.back()) return false;
        }
        packets_.push_back(std::move(kept));
        return true;
    }
    template <class Message>
    bool send_message(const Fd& socket, const Message& message, std::span<const int> descriptors = {}) {
        return send(socket, std::as_bytes(std::span(&message, 1)), descriptors);
    }
    // What the socket takes now. False: nobody reads any more, and nothing waits.
    bool flush(const Fd& socket) {
        while (!packets_.empty()) {
            const Packet& next = packets_.front();
            std::vector<int> descriptors;
            for (const Fd& descriptor : next.descriptors) descriptors.push_back(descriptor.get());
            const Io io = send_packet(socket, next.bytes.data(), next.bytes.size(), descriptors);
            if (io == Io::kAgain) return true;
            if (io == Io::kClosed) {
                packets_.clear();
                return false;
            }
            packets_.pop_front();
        }
        return true;
    }
    void clear() { packets_.clear(); }
    bool empty() const { return packets_.empty(); }
    size_t size() const { return packets_.size(); }

  private:
    struct Packet {
        std::vector<std::byte> bytes;
        std::vector<Fd> descriptors;
    };
    std::deque<Packet> packets_;
};

}  // namespace longshore
