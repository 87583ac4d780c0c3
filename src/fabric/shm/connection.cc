// How connections come and go: ShmFabric's sockets.
#include "fabric/shm/connection.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace longshore {
namespace {
constexpr uint64_t kRetryNs = 5'000'000;
constexpr uint64_t kGreetingLimitNs = 5'000'000'000;
constexpr size_t kIncomingMax = 4096;
}  // namespace

void ShmFabric::connect(ServiceAddress peer, Outgoing& out) {
    const uint64_t now = awake_ns();
    if (now < out.next_try_ns) return;
    const NodeAddress& node = options_.nodes[peer.node.value];
    out.socket = connect_to(service_socket_name(node.name, peer.service.value));
    if (!out.socket || !peer_is_same_user(out.socket, nullptr)) return connection_refused(peer, out);
    const Fd file = make_memory_file("longshore-ring", kMessageRingTotal);
    if (file) out.ring = Mapping::shared(file.get(), kMessageRingTotal);
    Greeting greeting;
    greeting.incarnation = options_.incarnation;
    greeting.token = node.token;
    greeting.node = options_.self.node.value;
    greeting.service = options_.self.service.value;
    greeting.to_node = peer.node.value;
    greeting.to_service = peer.service.value;
    const int descriptor = file.get();
    if (!file || !out.ring ||
        send_packet(out.socket, &greeting, sizeof greeting, {&descriptor, 1}) != Io::kOk)
        return connection_refused(peer, out);
    out.writer = RingWriter(out.ring.data(), kMessageRingBytes);
    out.state = Outgoing::State::kConnecting;
    watch(out.socket.get(), Own::kOutgoing, uint32_t{peer.node.value} << 16 | peer.service.value);
    try_again(peer, out);
}

// The peer is looked at in every turn, until it is connected or lost.
void ShmFabric::try_again(ServiceAddress peer, Outgoing& out) {
    unsettled_ = true;
    if (!std::exchange(out.listed, true)) trying_.push_back(peer);
}

// There is nobody to talk to just now. Its successor may come within the limit.
void ShmFabric::connection_refused(ServiceAddress peer, Outgoing& out) {
    const uint64_t now = awake_ns();
    out.socket.reset();
    out.ring.reset();
    out.bell.reset();
    out.doorbell.reset();
    out.state = Outgoing::State::kNone;
    out.probing = true;
    out.next_try_ns = now + kRetryNs;
    try_again(peer, out);
    if (out.down_since_ns == 0) out.down_since_ns = now;
    if (now - out.down_since_ns < options_.limit_ns) return;
    out.state = Outgoing::State::kLost;
    out.probing = false;
    done_.push_back(FabricEvent::lost(peer));
}

void ShmFabric::turn_outgoing(ServiceAddress peer, Outgoing& out) {
    if (out.state == Outgoing::State::kLost) return;
    if (out.state == Outgoing::State::kNone) {
        if (out.probing) connect(peer, out);
        return;
    }
    Welcome welcome;
    size_t bytes = 0;
    std::vector<Fd> descriptors;
    const Io io = receive_packet(out.socket, &welcome, sizeof welcome, &bytes, &descriptors);
    if (io == Io::kAgain) return;
    if (io == Io::kClosed) return connection_refused(peer, out);
    if (out.state == Outgoing::State::kReady || bytes != sizeof welcome || welcome.magic != kGreetingMagic ||
        descriptors.size() != 2 || !is_memory_file(descriptors[1].get(), kBellBytes, nullptr)) {
        refuse("a connection that does not keep to the protocol");
        return connection_refused(peer, out);
    }
    out.doorbell = std::move(descriptors[0]);
    out.bell = Mapping::shared(descriptors[1].get(), kBellBytes);
    if (!out.bell) return connection_refused(peer, out);
    out.state = Outgoing::State::kReady;
    out.probing = false;
    out.down_since_ns = 0;
}

void ShmFabric::accept_incoming() {
    for (int i = 0; i < kAcceptedPerTurn; ++i) {
        Fd socket = accept_from(listener_);
        if (!socket) return;
        if (!peer_is_same_user(socket, nullptr) || incoming_.size() >= kIncomingMax) {
            refuse("a connection of another user");
            continue;
        }
        auto in = std::make_unique<Incoming>();
        in->socket = std::move(socket);
        in->since_ns = awake_ns();
        in->number = ++incoming_numbers_;
        watch(in->socket.get(), Own::kIncoming, in->number);
        incoming_unsettled_ = true;
        incoming_.push_back(std::move(in));
    }
}

// The first packet of a connection. False: not one of ours.
bool ShmFabric::greet(Incoming& in) {
    Greeting greeting;
    size_t bytes = 0;
    std::vector<Fd> descriptors;
    const Io io = receive_packet(in.socket, &greeting, sizeof greeting, &bytes, &descriptors);
    if (io == Io::kAgain) return awake_ns() - in.since_ns < kGreetingLimitNs;
    if (io == Io::kClosed) return false;
    const ServiceAddress from{NodeId{greeting.node}, ServiceId{greeting.service}};
    const bool entitled = bytes == sizeof greeting && greeting.magic == kGreetingMagic &&
                          same_token(greeting.token, options_.nodes[options_.self.node.value].token) &&
                          find(from) != nullptr && greeting.to_node == options_.self.node.value &&
                          greeting.to_service == options_.self.service.value && descriptors.size() == 1 &&
                          is_memory_file(descriptors[0].get(), kMessageRingTotal, nullptr);
    if (!entitled) {
        refuse("a connection without the job's token");
        return false;
    }
    in.ring = Mapping::shared(descriptors[0].get(), kMessageRingTotal);
    if (!in.ring) return false;
    in.reader = RingReader(in.ring.data(), kMessageRingBytes);
    in.from = from;
    Welcome welcome;
    welcome.incarnation = options_.incarnation;
    const int give[2] = {doorbell_.eventfd(options_.self.service), bell_file_.get()};
    in.greeted = send_packet(in.socket, &welcome, sizeof welcome, give) == Io::kOk;
    return in.greeted;
}

// False: the connection is over.
bool ShmFabric::turn_incoming(Incoming& in) {
    if (!in.greeted) return greet(in);
    if (!in.closed) {
        char nothing;
        const ssize_t got = recv(in.socket.get(), &nothing, 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        in.closed = true;
        in.socket.reset();
        // Find out whether it comes back, although we may have nothing to say to it.
        Outgoing& out = *find(in.from);
        if (out.state == Outgoing::State::kNone) {
            out.probing = true;
            try_again(in.from, out);
        }
    }
    return !in.reader.empty();
}

void ShmFabric::take_event(uint64_t data) {
    const auto which = static_cast<uint32_t>(data);
    switch (static_cast<Own>(data >> 32)) {
        case Own::kOthers:
            return;
        case Own::kDoorbell: {
            uint64_t rings;
            [[maybe_unused]] const ssize_t got =
                ::read(doorbell_.eventfd(options_.self.service), &rings, sizeof rings);
            return;
        }
        case Own::kListener:
            return accept_incoming();
        case Own::kOutgoing: {
            const ServiceAddress peer{NodeId{static_cast<uint16_t>(which >> 16)},
                                      ServiceId{static_cast<uint16_t>(which)}};
            return turn_outgoing(peer, *find(peer));
        }
        case Own::kIncoming: {
            const auto at = std::find_if(incoming_.begin(), incoming_.end(),
                                         [&](const auto& in) { return in->number == which; });
            if (at == incoming_.end()) return;
            if (!turn_incoming(**at)) {
                incoming_.erase(at);
            } else {
                incoming_unsettled_ |= !(*at)->greeted || (*at)->closed;
            }
        }
    }
}

void ShmFabric::take_events() {
    constexpr int kEventsPerTurn = 64, kTurnsMax = 16;
    epoll_event events[kEventsPerTurn];
    for (int turn = 0; turn < kTurnsMax; ++turn) {
        const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
        for (int i = 0; i < count; ++i) take_event(events[i].data.u64);
        if (count < kEventsPerTurn) return;
    }
}

// Only those connections are looked at of which the system has something to tell, or whose time may have
// come.
void ShmFabric::turn_sockets() {
    take_events();
    if (std::exchange(incoming_unsettled_, false)) {
        std::erase_if(incoming_, [&](const auto& in) { return !turn_incoming(*in); });
        for (const auto& in : incoming_) incoming_unsettled_ |= !in->greeted || in->closed;
    }
    const auto is_trying = [](const Outgoing& out) {
        return out.state == Outgoing::State::kConnecting ||
               (out.state == Outgoing::State::kNone && out.probing);
    };
    for (size_t i = 0; i < trying_.size(); ++i) {
        Outgoing& out = *find(trying_[i]);
        if (is_trying(out)) turn_outgoing(trying_[i], out);
    }
    std::erase_if(trying_, [&](ServiceAddress peer) {
        Outgoing& out = *find(peer);
        out.listed = is_trying(out);
        return !out.listed;
    });
    unsettled_ = incoming_unsettled_ || !trying_.empty();
}

}  // namespace longshore
