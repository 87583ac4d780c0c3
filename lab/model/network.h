// What bytes pass on their way, and how long that takes. A way is a chain of servers (a link in one
// direction, a host's bus in one direction, a memory), each of which serves one transfer after the other in
// the order in which their heads arrive; the head goes on while the rest follows. A server is taken when the
// head gets there, never ahead of time. What is not longer than a packet passes between the packets of longer
// ones and waits for other short ones alone. As a check of that rule the servers can be shared instead: then
// all transfers under way have the rates of max-min fairness, and each starts when its latencies are over.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/event_queue.h"

namespace longshore::timed {

class Arrivals {
  public:
    // The last byte of a transfer is there.
    virtual void on_arrival(uint64_t tag) = 0;

  protected:
    ~Arrivals() = default;
};

enum class Sharing : uint8_t { kFifo, kMaxMin };

struct Transfer {
    std::span<const uint32_t> way;  // servers, by number; at most Network::kHopsMax
    uint64_t bytes = 0;
    Time delay = 0;          // before the head is at the first server
    uint64_t rate_max = 0;   // of this transfer alone, in bytes a second; 0: no limit
    Arrivals* to = nullptr;  // with this tag, when the last byte has arrived
    uint64_t tag = 0;
};

class Network {
  public:
    static constexpr size_t kHopsMax = 4;
    virtual ~Network() = default;
    // `latency`: how long the head takes from there to the next server, or to the end. `gap`: each transfer
    // takes the server at least for so long. Returns its number.
    uint32_t add_server(uint64_t bytes_per_second, Time latency = 0, Time gap = 0);
    // A way of no servers is one without bytes, too.
    virtual void send(const Transfer& transfer) = 0;

    // How long a server has been busy, and what it has passed on.
    Time busy(uint32_t server) const { return servers_[server].busy; }
    uint64_t bytes(uint32_t server) const { return servers_[server].bytes; }
    uint64_t transfers() const { return transfers_; }

  protected:
    static constexpr uint64_t kPacketBytes = 4096;
    // Thousands of each are in use, in turn: one of them takes a line of the caches.
    struct alignas(64) Server {
        uint64_t rate = 0;
        Time latency = 0, gap = 0, free_at = 0, busy = 0;
        Time free_for_short_at = 0;
        uint64_t bytes = 0;
    };
    struct alignas(64) UnderWay {
        std::array<uint32_t, kHopsMax> way;
        uint16_t hops = 0, hop = 0;
        uint64_t bytes = 0, rate_max = 0;
        Arrivals* to = nullptr;
        uint64_t tag = 0;
        Time last = 0;  // when the last byte has left the server before, or is at the end
    };
    static_assert(sizeof(Server) == 64 && sizeof(UnderWay) == 64);
    uint32_t take(const Transfer& transfer);
    void arrive(uint32_t item);
    Time service_time(const Server& server, uint64_t bytes) const;

    std::vector<Server> servers_;
    std::vector<UnderWay> items_;
    std::vector<uint32_t> free_;
    uint64_t transfers_ = 0;
};

std::unique_ptr<Network> make_network(EventQueue& queue, Sharing sharing);

}  // namespace longshore::timed
