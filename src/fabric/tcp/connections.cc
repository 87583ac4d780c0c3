#include "fabric/tcp/connections.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "fabric/descriptors.h"

namespace longshore {
namespace {
constexpr uint64_t kLooksPerLimit = 16;
// A service process may wait seconds for a core that ranks keep busy before it answers a new stream: to take
// that for a cut link would end a job that is only slow.
constexpr uint64_t kLimitsToConnect = 6;
constexpr uint64_t kDialWaitMinNs = 5'000'000, kDialWaitMaxNs = 500'000'000;
}  // namespace

Connections::Connections(const Door::Options& options, int epoll, Owner& owner)
    : options_(options), epoll_(epoll), owner_(owner) {}

std::unique_ptr<Connections> Connections::create(const Door::Options& options, const ServiceBook& book,
                                                 std::span<const TcpAddress> own, Fd streams, int epoll,
                                                 Owner& owner, std::string* error) {
    std::unique_ptr<Connections> all(new Connections(options, epoll, owner));
    for (uint16_t node = 0; node < options.nodes->size(); ++node) {
        all->first_of_node_.push_back(all->count());
        for (uint16_t service = 0; service < (*options.nodes)[node].services; ++service) {
            const uint32_t number = all->count();
            Connection& c = all->connections_.emplace_back();
            c.at = {NodeId{node}, ServiceId{service}};
            c.number = number;
            if (node < book.size() && service < book[node].size() &&
                decode_addresses(book[node][service], &c.addresses, &c.port))
                order_addresses(own, &c.addresses);
        }
    }
    all->first_of_node_.push_back(all->count());
    all->door_ = Door::create(options, std::move(streams), epoll, *all, error);
    if (!all->door_) all.reset();
    return all;
}

uint32_t Connections::find(ServiceAddress peer) const {
    if (peer.node.value + 1u >= first_of_node_.size() || peer.node == options_.self.node) return kNobody;
    const uint32_t number = first_of_node_[peer.node.value] + peer.service.value;
    return number < first_of_node_[peer.node.value + 1] ? number : kNobody;
}

std::string Connections::name_of(const Connection& c) const {
    const char* host = (*options_.nodes)[c.at.node.value].host;
    std::string name = "service process " + std::to_string(c.at.service.value) + " of node " +
                       std::to_string(c.at.node.value);
    return *host != 0 ? name + " (" + host + ")" : name;
}

std::string Connections::take_problem() {
    return std::exchange(problem_, {});
}

Connections::Event Connections::find_event(uint64_t number) {
    if ((number & Door::kEventBit) != 0) {
        door_->on_event(number);
        return {};
    }
    // Whose, in which life, and which (watch()).
    const auto peer = static_cast<uint32_t>(number >> 32);
    if ((number & 0x7fffffff) != (connections_[peer].life & 0x7fffffff)) return {};
    return {peer, (number & 0x80000000) != 0 ? StreamKind::kData : StreamKind::kTalk};
}

void Connections::refuse(const char* what) {
    ++refused_;
    if (!std::exchange(told_refused_, true)) problem_ = std::string("refused ") + what;
}

void Connections::on_full() {
    if (!std::exchange(told_full_, true)) problem_ = no_descriptor_left("a service process");
}

// --- Connecting. Both may begin at the same time: then the stream stays that was opened by the one whose
// address is lower.

bool Connections::dials_first(const Connection& c) const {
    const ServiceAddress& self = options_.self;
    return self.node.value != c.at.node.value ? self.node.value < c.at.node.value
                                              : self.service.value < c.at.service.value;
}

void Connections::connect(Connection& c) {
    c.state = State::kConnecting;
    c.since_ns = c.wanted_ns = awake_ns();
    c.next_address = 0;
    c.dial_wait_ns = kDialWaitMinNs;
    watch_time(c);
    dial(c, StreamKind::kTalk);
}

// Talk at the next of the peer's addresses, or data at the one where talk was opened. Whether that succeeds
// is told by take_in() or on_failed().
void Connections::dial(Connection& c, StreamKind kind) {
    c.dial_at_ns = 0;
    Hello hello;
    hello.kind = kind;
    hello.from = options_.self;
    hello.to = c.at;
    hello.incarnation = options_.incarnation;
    hello.connection = c.name;
    if (kind == StreamKind::kTalk &&
        (c.addresses.empty() ||
         getrandom(&hello.connection, sizeof hello.connection, 0) != sizeof hello.connection))
        return on_failed(c.at, kind, {EDESTADDRREQ});
    door_->open(hello, c.addresses[c.next_address], c.port);
}

void Connections::on_failed(ServiceAddress at, StreamKind kind, const Door::Failure& why) {
    Connection& c = connections_[find(at)];
    const bool wanted = kind == StreamKind::kTalk ? c.state == State::kConnecting
                                                  : c.state == State::kConnected && !c.has_data;
    if (!wanted) return;
    c.failure = why;
    if (why.error == EMFILE || why.error == ENFILE) on_full();
    uint64_t wait_ns = 0;
    if (kind == StreamKind::kData || ++c.next_address >= c.addresses.size()) {
        if (kind == StreamKind::kTalk) c.next_address = 0;
        wait_ns = c.dial_wait_ns;
        c.dial_wait_ns = std::min(2 * c.dial_wait_ns, kDialWaitMaxNs);
    }
    c.dial_at_ns = awake_ns() + wait_ns;
    busy_ = true;
}

bool Connections::admit(const Door::Met& met) {
    const uint32_t peer = find(met.hello.from);
    if (peer == kNobody || met.hello.kind == StreamKind::kTasks || connections_[peer].state == State::kLost)
        return false;
    const Connection& c = connections_[peer];
    if (met.hello.kind == StreamKind::kData)
        return (c.state == State::kConnected || c.state == State::kWelcomed) && !c.dialed && !c.has_data &&
               met.incarnation == c.incarnation && met.hello.connection == c.name;
    if (met.incarnation != c.incarnation) return met.incarnation > c.incarnation;
    // A service process that has been heard has no reason to connect again: it lost nothing that we have not
    // lost.
    if (c.state == State::kDown || c.state == State::kConnected) return false;
    const bool own_goes_on = c.state == State::kConnecting && door_->has_reached(c.at);
    return !own_goes_on || !dials_first(c);
}

// A newer one takes the place of its former self, and is asked for all that its former self was asked for.
void Connections::take_in(const Door::Met& met, Stream stream) {
    Connection& c = connections_[find(met.connected ? met.hello.to : met.hello.from)];
    if (met.hello.kind == StreamKind::kData) return take_data(c, met, std::move(stream));
    if (met.incarnation < c.incarnation || (met.connected && c.state != State::kConnecting))
        return on_failed(c.at, StreamKind::kTalk, {ESTALE});
    door_->give_up(c.at);
    hang_up(c);
    if (met.incarnation > c.incarnation) {
        owner_.on_successor(c.number);
        c.incarnation = met.incarnation;
    }
    if (c.state != State::kConnecting && c.state != State::kWelcomed) c.wanted_ns = now_;
    c.state = State::kWelcomed;
    watch_time(c);
    c.since_ns = now_;
    c.name = met.hello.connection;
    c.dialed = met.connected;
    c.dial_wait_ns = kDialWaitMinNs;
    c.life = ++lives_;
    const bool heard_of = watch(c, StreamKind::kTalk, stream.fd());
    owner_.take_stream(c.number, StreamKind::kTalk, std::move(stream));
    if (!heard_of) owner_.on_failing(c.number, "cannot be waited for");
    if (!c.dialed) return;
    on_heard(c.number);
    dial(c, StreamKind::kData);
}

void Connections::take_data(Connection& c, const Door::Met& met, Stream stream) {
    if (c.life == 0 || c.has_data || met.incarnation != c.incarnation || met.hello.connection != c.name)
        return;
    c.has_data = true;
    const bool heard_of = watch(c, StreamKind::kData, stream.fd());
    owner_.take_stream(c.number, StreamKind::kData, std::move(stream));
    if (!heard_of) owner_.on_failing(c.number, "cannot be waited for");
    on_heard(c.number);
}

// Both ends know now that they are connected.
void Connections::on_heard(uint32_t peer) {
    Connection& c = connections_[peer];
    if (c.state != State::kWelcomed) return;
    c.state = State::kConnected;
    owner_.on_connected(peer, c.dialed);
}

bool Connections::watch(const Connection& c, StreamKind kind, int fd) const {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 =
        uint64_t{c.number} << 32 | (kind == StreamKind::kData ? 0x80000000u : 0u) | (c.life & 0x7fffffff);
    return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

// --- And going.

void Connections::hang_up(Connection& c) {
    c.life = 0;
    c.has_data = false;
    owner_.on_closed(c.number);
}

void Connections::close(uint32_t peer, const std::string& why, int error) {
    Connection& c = connections_[peer];
    if (c.life == 0) return;
    door_->give_up(c.at);
    const bool was_heard = c.state == State::kConnected;
    hang_up(c);
    c.since_ns = now_;
    if (!was_heard && why.empty()) {
        // It gave up, and lost nothing: nothing was said.
        const uint64_t wanted_ns = c.wanted_ns;
        connect(c);
        c.since_ns = c.wanted_ns = wanted_ns;
        return;
    }
    c.state = State::kDown;
    watch_time(c);
    if (!why.empty()) {
        ++refused_;
        problem_ = name_of(c) + " " + why + ": the connection is closed";
    } else if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
        problem_ = name_of(c) + " has not answered for " +
                   std::to_string(options_.probes.silence_ns / 1'000'000'000) + " s (" + strerror(error) +
                   "; see LONGSHORE_LIMIT_S)";
    }
}

std::string Connections::why_unreached(const Connection& c) {
    const auto [error, refused] = c.failure;
    if (refused != nullptr)
        return std::string("refused ") + refused +
               " (does another machine have its address? see LONGSHORE_NETWORK_INTERFACES)";
    if (error == EPROTO)
        return "TLS failed: the other end does not know the job's token, or is of another version";
    if (error == EMFILE) return no_descriptor_left("a service process");
    return std::string(error != 0 ? strerror(error) : "no attempt has ended") +
           " (a firewall? see LONGSHORE_NETWORK_PORTS and LONGSHORE_NETWORK_INTERFACES)";
}

void Connections::lose(Connection& c) {
    if (problem_.empty())
        problem_ = name_of(c) + (c.state == State::kConnecting ? " cannot be reached: " + why_unreached(c)
                                                               : " is gone, and none has taken its place");
    door_->give_up(c.at);
    c.state = State::kLost;
    owner_.on_lost(c.number);
}

// Its state has changed: it may be one that has_time().
void Connections::watch_time(Connection& c) {
    if (!std::exchange(c.watched, true)) watched_.push_back(&c);
}

// Whether time alone makes something happen to it.
bool Connections::has_time(const Connection& c) {
    if (c.state == State::kConnected) return c.dialed && !c.has_data;
    return c.state != State::kNone && c.state != State::kLost;
}

bool Connections::look() {
    if (!busy_ && now_ - looked_ns_ < options_.limit_ns / kLooksPerLimit) return false;
    looked_ns_ = now_;
    busy_ = door_->busy();
    door_->look(now_);
    looked_at_.swap(watched_);
    for (Connection* const c : looked_at_) {
        c->watched = false;
        look_at(*c);
        if (has_time(*c)) watch_time(*c);
    }
    looked_at_.clear();
    return true;
}

void Connections::look_at(Connection& c) {
    const uint64_t age = now_ - std::min(now_, c.since_ns);
    const bool too_old = age >= kLimitsToConnect * options_.limit_ns;
    const bool dials = c.dial_at_ns != 0 && now_ >= c.dial_at_ns;
    switch (c.state) {
        case State::kNone:
        case State::kLost:
            break;
        case State::kConnecting:
            busy_ = true;
            if (too_old) {
                lose(c);
            } else if (dials) {
                dial(c, StreamKind::kTalk);
            }
            break;
        case State::kWelcomed:
            if (too_old) owner_.on_failing(c.number, nullptr);
            break;
        case State::kConnected:
            if (c.has_data || !c.dialed) break;
            busy_ = true;
            if (too_old) {
                close(c.number, "cannot be reached for data", 0);
            } else if (dials) {
                dial(c, StreamKind::kData);
            }
            break;
        case State::kDown:
            if (age >= options_.limit_ns) lose(c);
            break;
    }
}

}  // namespace longshore
