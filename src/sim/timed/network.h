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

#include "sim/timed/event_queue.h"

namespace longshore::timed {

// One server of a way, and how long the head takes from there to the next one, or to the end.
struct Hop {
    uint32_t server = 0;
    Time latency = 0;
};

class Arrivals {
  public:
    // The last byte of a transfer is there.
    virtual void on_arrival(uint64_t tag) = 0;

  protected:
    ~Arrivals() = default;
};

enum class Sharing : uint8_t { kFifo, kMaxMin };

struct Transfer {
    std::span<const Hop> way;  // kept
    uint64_t bytes = 0;
    Time delay = 0;          // before the head is at the first server
    uint64_t rate_max = 0;   // of this transfer alone, in bytes a second; 0: no limit
    Arrivals* to = nullptr;  // with this tag, when the last byte has arrived
    uint64_t tag = 0;
};

class Network {
  public:
    virtual ~Network() = default;
    // `gap`: each transfer takes a server at least for so long. Returns the server's number.
    uint32_t add_server(uint64_t bytes_per_second, Time gap = 0);
    // A way of no servers is one without bytes, too.
    virtual void send(const Transfer& transfer) = 0;

    // How long a server has been busy, and what it has passed on.
    Time busy(uint32_t server) const { return servers_[server].busy; }
    uint64_t bytes(uint32_t server) const { return servers_[server].bytes; }
    uint64_t transfers() const { return transfers_; }

  protected:
    static constexpr size_t kHopsMax = 6;
    static constexpr uint64_t kPacketBytes = 4096;
    struct Server {
        uint64_t rate = 0;
        Time gap = 0, free_at = 0, busy = 0;
        Time free_for_short_at = 0;
        uint64_t bytes = 0;
    };
    struct UnderWay {
        std::array<Hop, kHopsMax> way;
        uint32_t hops = 0, hop = 0;
        uint64_t bytes = 0, rate_max = 0;
        Arrivals* to = nullptr;
        uint64_t tag = 0;
        Time last = 0;  // when the last byte has left the server before, or is at the end
    };
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
