// How streams to other nodes' service processes come and go.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "fabric/descriptors.h"
#include "fabric/tcp/peer.h"

namespace longshore {
namespace {
constexpr uint64_t kLooksPerLimit = 16;
// A service process may wait seconds for a core that ranks keep busy before it answers a new stream: to take
// that for a cut link would end a job that is only slow.
constexpr uint64_t kLimitsToConnect = 6;
constexpr uint64_t kDialWaitMinNs = 5'000'000, kDialWaitMaxNs = 500'000'000;
}  // namespace

TcpFabric::Peer* TcpFabric::find(ServiceAddress peer) {
    if (peer.node.value >= options_.nodes.size() || peer.node == options_.self.node) return nullptr;
    const uint32_t at = first_of_node_[peer.node.value] + peer.service.value;
    return at < first_of_node_[peer.node.value + 1] ? &peers_[at] : nullptr;
}

std::string TcpFabric::name_of(const Peer& peer) const {
    const char* host = options_.nodes[peer.at.node.value].host;
    std::string name = "service process " + std::to_string(peer.at.service.value) + " of node " +
                       std::to_string(peer.at.node.value);
    return *host != 0 ? name + " (" + host + ")" : name;
}

void TcpFabric::refuse(const char* what) {
    ++counters_.refused;
    if (!std::exchange(told_refused_, true)) problem_ = std::string("refused ") + what;
}

void TcpFabric::on_full() {
    if (!std::exchange(told_full_, true)) problem_ = no_descriptor_left("a service process");
}

// --- Connecting. Both may begin at the same time: then the stream stays that was opened by the one whose
// address is lower.

bool TcpFabric::dials_first(const Peer& peer) const {
    const ServiceAddress& self = options_.self;
    return self.node.value != peer.at.node.value ? self.node.value < peer.at.node.value
                                                 : self.service.value < peer.at.service.value;
}

void TcpFabric::connect(Peer& peer) {
    peer.state = Peer::State::kConnecting;
    peer.since_ns = peer.wanted_ns = now_ns();
    peer.next_address = 0;
    peer.dial_wait_ns = kDialWaitMinNs;
    watch_time(peer);
    dial(peer, StreamKind::kTalk);
}

// Talk at the next of the peer's addresses, or data at the one where talk was opened. Whether that succeeds
// is told by take_in() or on_failed().
void TcpFabric::dial(Peer& peer, StreamKind kind) {
    peer.dial_at_ns = 0;
    Hello hello;
    hello.kind = kind;
    hello.from = options_.self;
    hello.to = peer.at;
    hello.incarnation = options_.incarnation;
    hello.connection = peer.connection;
    if (kind == StreamKind::kTalk &&
        (peer.addresses.empty() ||
         getrandom(&hello.connection, sizeof hello.connection, 0) != sizeof hello.connection))
        return on_failed(peer.at, kind, EDESTADDRREQ);
    door_->open(hello, peer.addresses[peer.next_address], peer.port);
}

void TcpFabric::on_failed(ServiceAddress at, StreamKind kind, int error) {
    Peer& peer = *find(at);
    const bool wanted = kind == StreamKind::kTalk ? peer.state == Peer::State::kConnecting
                                                  : peer.state == Peer::State::kConnected && !peer.data;
    if (!wanted) return;
    peer.dial_error = error;
    if (error == EMFILE || error == ENFILE) on_full();
    uint64_t wait_ns = 0;
    if (kind == StreamKind::kData || ++peer.next_address >= peer.addresses.size()) {
        if (kind == StreamKind::kTalk) peer.next_address = 0;
        wait_ns = peer.dial_wait_ns;
        peer.dial_wait_ns = std::min(2 * peer.dial_wait_ns, kDialWaitMaxNs);
    }
    peer.dial_at_ns = now_ns() + wait_ns;
    connecting_ = true;
}

bool TcpFabric::admit(const Door::Met& met) {
    const Peer* const peer = find(met.hello.from);
    if (peer == nullptr || peer->state == Peer::State::kLost) return false;
    if (met.hello.kind == StreamKind::kData)
        return (peer->state == Peer::State::kConnected || peer->state == Peer::State::kWelcomed) &&
               !peer->dialed && !peer->data && met.incarnation == peer->incarnation &&
               met.hello.connection == peer->connection;
    if (met.incarnation != peer->incarnation) return met.incarnation > peer->incarnation;
    // A service process that has been heard has no reason to connect again: it lost nothing that we have not
    // lost.
    if (peer->state == Peer::State::kDown || peer->state == Peer::State::kConnected) return false;
    const bool own_goes_on = peer->state == Peer::State::kConnecting && door_->has_reached(peer->at);
    return !own_goes_on || !dials_first(*peer);
}

// A newer one takes the place of its former self, and is asked for all that its former self was asked for.
void TcpFabric::take_in(const Door::Met& met, Stream stream) {
    Peer& peer = *find(met.connected ? met.hello.to : met.hello.from);
    if (met.hello.kind == StreamKind::kData) {
        if (peer.life == 0 || peer.data || met.incarnation != peer.incarnation ||
            met.hello.connection != peer.connection)
            return;
        peer.data = std::move(stream);
        peer.data_readable = peer.data_writable = true;
        if (!watch(peer, StreamKind::kData)) peer.set_broken("cannot be waited for");
        on_heard(peer);
        return mark(peer);
    }
    if (met.incarnation < peer.incarnation || (met.connected && peer.state != Peer::State::kConnecting))
        return on_failed(peer.at, StreamKind::kTalk, ESTALE);
    door_->give_up(peer.at);
    hang_up(peer);
    if (met.incarnation > peer.incarnation) {
        std::erase_if(frames_, [&](const Frame& frame) { return frame.from == peer.at; });
        peer.incarnation = met.incarnation;
    }
    if (peer.state != Peer::State::kConnecting && peer.state != Peer::State::kWelcomed)
        peer.wanted_ns = turned_ns_;
    peer.state = Peer::State::kWelcomed;
    watch_time(peer);
    peer.since_ns = turned_ns_;
    peer.connection = met.hello.connection;
    peer.dialed = met.connected;
    peer.dial_wait_ns = kDialWaitMinNs;
    peer.life = ++lives_;
    peer.talk.open(std::move(stream));
    if (!watch(peer, StreamKind::kTalk)) peer.set_broken("cannot be waited for");
    mark(peer);
    if (!peer.dialed) return;
    on_heard(peer);
    dial(peer, StreamKind::kData);
}

// Both ends know now that they are connected.
void TcpFabric::on_heard(Peer& peer) {
    if (peer.state != Peer::State::kWelcomed) return;
    peer.state = Peer::State::kConnected;
    if (peer.dialed) {
        Talk here;
        here.kind = TalkKind::kHere;
        say(peer, here);
    }
    ask_for_all(peer);
}

bool TcpFabric::watch(Peer& peer, StreamKind kind) {
    const bool data = kind == StreamKind::kData;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = uint64_t{peer.index} << 32 | (data ? 0x80000000u : 0u) | (peer.life & 0x7fffffff);
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, data ? peer.data.fd() : peer.talk.fd(), &event) == 0;
}

// --- And going.

// What went and came by its streams is forgotten, as if there had been none.
void TcpFabric::hang_up(Peer& peer) {
    peer.life = 0;
    peer.talk.close();
    peer.data.close();
    peer.data_readable = peer.data_writable = false;
    peer.broken = false;
    peer.why.clear();
    peer.serving.reset();
    peer.receiving.reset();
    peer.sent_ahead.reset();
    peer.coming.reset();
}

// Nothing comes from these streams any more.
void TcpFabric::break_off(Peer& peer, const std::string& why) {
    if (peer.life == 0) return;
    const int error = peer.talk.error() != 0 ? peer.talk.error() : peer.data ? peer.data.error() : 0;
    door_->give_up(peer.at);
    const bool was_heard = peer.state == Peer::State::kConnected;
    hang_up(peer);
    peer.since_ns = turned_ns_;
    if (!was_heard && why.empty()) {
        // It gave up, and lost nothing: nothing was said.
        const uint64_t wanted_ns = peer.wanted_ns;
        connect(peer);
        peer.since_ns = peer.wanted_ns = wanted_ns;
        return;
    }
    peer.state = Peer::State::kDown;
    watch_time(peer);
    if (!why.empty()) {
        ++counters_.refused;
        problem_ = name_of(peer) + " " + why + ": the connection is closed";
    } else if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
        problem_ = name_of(peer) + " has not answered for " +
                   std::to_string(probes_.silence_ns / 1'000'000'000) + " s (" + strerror(error) +
                   "; see LONGSHORE_LIMIT_S)";
    }
}

void TcpFabric::lose(Peer& peer) {
    if (problem_.empty())
        problem_ = peer.state == Peer::State::kConnecting && peer.dial_error == EMFILE
                       ? name_of(peer) + " cannot be reached: " + no_descriptor_left("a service process")
                   : peer.state == Peer::State::kConnecting
                       ? name_of(peer) + " cannot be reached: " + strerror(peer.dial_error) +
                             " (a firewall? see LONGSHORE_NETWORK_PORTS and LONGSHORE_NETWORK_INTERFACES)"
                       : name_of(peer) + " is gone, and none has taken its place";
    door_->give_up(peer.at);
    peer.state = Peer::State::kLost;
    // Before the reads that fail because of it: theirs would be said to be a fault of the memory.
    done_.push_back(FabricEvent::lost(peer.at));
    fail_reads(peer);
}

// Its state has changed, or blocks come ahead from it: it may be a peer that has_time().
void TcpFabric::watch_time(Peer& peer) {
    if (!std::exchange(peer.watched, true)) watched_.push_back(&peer);
}

// Whether time alone makes something happen to it.
bool TcpFabric::has_time(const Peer& peer) const {
    switch (peer.state) {
        case Peer::State::kNone:
        case Peer::State::kLost:
            return false;
        case Peer::State::kConnected:
            return (!peer.data && peer.dialed) || !peer.coming.empty();
        default:
            return true;
    }
}

void TcpFabric::look_at_peers(uint64_t now) {
    if (!connecting_ && now - looked_ns_ < options_.limit_ns / kLooksPerLimit) return;
    looked_ns_ = now;
    connecting_ = door_->busy();
    door_->look(now);
    looked_at_.swap(watched_);
    for (Peer* const peer : looked_at_) {
        peer->watched = false;
        look_at(*peer, now);
        if (has_time(*peer)) watch_time(*peer);
    }
    looked_at_.clear();
}

void TcpFabric::look_at(Peer& peer, uint64_t now) {
    const uint64_t age = now - std::min(now, peer.since_ns);
    const bool too_old = age >= kLimitsToConnect * options_.limit_ns;
    const bool dials = peer.dial_at_ns != 0 && now >= peer.dial_at_ns;
    switch (peer.state) {
        case Peer::State::kNone:
        case Peer::State::kLost:
            break;
        case Peer::State::kConnecting:
            connecting_ = true;
            if (too_old) {
                lose(peer);
            } else if (dials) {
                dial(peer, StreamKind::kTalk);
            }
            break;
        case Peer::State::kWelcomed:
            if (too_old) peer.broken = true, mark(peer);
            break;
        case Peer::State::kConnected:
            if (peer.coming.drop_old(now)) mark(peer);  // it is to be told
            if (peer.data || !peer.dialed) break;
            connecting_ = true;
            if (too_old) {
                break_off(peer, "cannot be reached for data");
            } else if (dials) {
                dial(peer, StreamKind::kData);
            }
            break;
        case Peer::State::kDown:
            if (age >= options_.limit_ns) lose(peer);
            break;
    }
}

}  // namespace longshore
