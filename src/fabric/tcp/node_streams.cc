#include "fabric/tcp/node_streams.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "fabric/tcp/addresses.h"
#include "fabric/tcp/door.h"

namespace longshore {
namespace {

constexpr size_t kWaitingMax = 256;  // of streams that nobody has taken yet

// The end of a node is the service process behind its last one.
ServiceAddress end_of(NodeId node, const NodeAddress& address) {
    return {node, ServiceId{address.services}};
}

// As the door of a service process: with the ends of streams among its peers.
class Ends : public Door::Owner {
  public:
    Ends(NodeId self, std::vector<NodeAddress> nodes, uint64_t limit_ns)
        : self_(end_of(self, nodes[self.value])), nodes_(std::move(nodes)), limit_ns_(limit_ns) {
        for (NodeAddress& node : nodes_) ++node.services;
    }
    bool open(Fd streams, std::string* error) {
        epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
        // One that stays silent, because nobody connects to who only connects.
        if (!streams) streams = Fd(epoll_create1(EPOLL_CLOEXEC));
        Door::Options options;
        options.self = self_;
        options.nodes = &nodes_;
        options.limit_ns = limit_ns_;
        options.probes = probe_times_of_kernel(limit_ns_, 1);
        door_ = Door::create(options, std::move(streams), epoll_.get(), *this, error);
        return door_ != nullptr;
    }
    void turn(int wait_ms) {
        epoll_event events[16];
        const int count = epoll_wait(epoll_.get(), events, 16, wait_ms);
        for (int i = 0; i < count; ++i) door_->on_event(events[i].data.u64);
        door_->look(awake_ns());
    }

    bool admit(const Door::Met& met) override {
        return met.hello.kind == StreamKind::kTasks && met_.size() < kWaitingMax;
    }
    void take_in(const Door::Met& met, Stream stream) override {
        met_.emplace_back(met.hello.from.node, stream.take_socket());
    }
    void on_failed(ServiceAddress, StreamKind, const Door::Failure& why) override {
        failed_ = true;
        failure_ = why;
    }
    void on_full() override {}
    void refuse(const char*) override {}

  protected:
    const ServiceAddress self_;
    std::vector<NodeAddress> nodes_;
    const uint64_t limit_ns_;
    Fd epoll_;
    std::unique_ptr<Door> door_;
    std::deque<std::pair<NodeId, Fd>> met_;
    bool failed_ = false;
    Door::Failure failure_;
};

class TcpStreamDoor : public StreamDoor, public Ends {
  public:
    using Ends::Ends;
    int fd() const override { return epoll_.get(); }
    void turn() override { Ends::turn(0); }
    Fd take(NodeId* from) override {
        if (met_.empty()) return {};
        *from = met_.front().first;
        Fd socket = std::move(met_.front().second);
        met_.pop_front();
        return socket;
    }
};

class Connecting : public Ends {
  public:
    using Ends::Ends;
    // One address after the other, until the time is over.
    Fd connect(ServiceAddress to, std::span<const TcpAddress> addresses, uint16_t port) {
        constexpr int kStepMs = 10;
        constexpr uint64_t kPauseNs = 50'000'000;
        const uint64_t end = awake_ns() + limit_ns_;
        for (size_t next = 0; met_.empty() && awake_ns() < end; ++next) {
            failed_ = false;
            Hello hello;
            hello.kind = StreamKind::kTasks;
            hello.from = self_;
            hello.to = to;
            door_->open(hello, addresses[next % addresses.size()], port);
            while (!failed_ && met_.empty() && awake_ns() < end) Ends::turn(kStepMs);
            const uint64_t again = awake_ns() + kPauseNs;
            while (failed_ && awake_ns() < std::min(again, end)) Ends::turn(kStepMs);
        }
        return met_.empty() ? Fd() : std::move(met_.front().second);
    }
    std::string why() const {
        if (failure_.refused != nullptr) return std::string("refused ") + failure_.refused;
        return failure_.error != 0 ? strerror(failure_.error) : "no answer";
    }
};

std::unique_ptr<StreamDoor> open_door(NodeId self, std::span<const NodeAddress> nodes, Fd streams,
                                      uint64_t limit_ns, std::string* error) {
    auto door = std::make_unique<TcpStreamDoor>(self, std::vector(nodes.begin(), nodes.end()), limit_ns);
    return door->open(std::move(streams), error) ? std::move(door) : nullptr;
}

Fd connect_to_node(const StreamEnd& self, const StreamEnd& to, std::span<const std::byte> place,
                   uint64_t limit_ns, std::string* error) {
    std::vector<TcpAddress> addresses;
    uint16_t port = 0;
    if (!decode_addresses(place, &addresses, &port)) {
        *error = "it has no port for tasks";
        return {};
    }
    std::string ignored;
    order_addresses(own_addresses("", &ignored), &addresses);
    std::vector<NodeAddress> nodes(std::max(self.node.value, to.node.value) + size_t{1});
    nodes[self.node.value] = self.address;
    nodes[to.node.value] = to.address;
    Connecting end(self.node, std::move(nodes), limit_ns);
    if (!end.open({}, error)) return {};
    Fd socket = end.connect(end_of(to.node, to.address), addresses, port);
    if (!socket) *error = end.why();
    return socket;
}

}  // namespace

const NodeStreams& node_streams() {
    static constexpr NodeStreams kStreams{open_door, connect_to_node};
    return kStreams;
}

}  // namespace longshore
