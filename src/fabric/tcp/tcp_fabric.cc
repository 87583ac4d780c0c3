#include "fabric/tcp/tcp_fabric.h"

#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "fabric/descriptors.h"
#include "fabric/tcp/peer.h"

namespace longshore {
namespace {
constexpr int kEventsPerTurn = 64;
constexpr size_t kTalkWaitingMax = 256 * 1024;  // bytes that a peer's stream has no room for yet
constexpr uint64_t kConnectingWaitNs = 5'000'000;
}  // namespace

bool TcpEnd::open(const NetworkSettings& settings, PortShare of_port, std::string* error) {
    own = own_addresses(settings.interfaces, error);
    if (own.empty()) return false;
    share = std::move(of_port);
    if (!share.streams) *error = "the node has no port";
    address = encode_addresses(own, share.port);
    return static_cast<bool>(share.streams);
}

TcpFabric::TcpFabric(NetworkOptions options, TcpEnd end, std::unique_ptr<ShmFabric> local, Fd epoll)
    : options_(std::move(options)),
      probes_(probe_times_of_kernel(options_.limit_ns, count_others(options_))),
      local_(std::move(local)),
      end_(std::move(end)),
      epoll_(std::move(epoll)),
      source_(options_.memory, *local_, options_.self.service, options_.incarnation),
      reads_(local_->copier(), done_) {
    uint64_t services = 0;
    for (const NodeAddress& node : options_.nodes) services += node.services;
    const AheadWindow window(services);
    for (uint16_t node = 0; node < options_.nodes.size(); ++node) {
        first_of_node_.push_back(static_cast<uint32_t>(peers_.size()));
        for (uint16_t service = 0; service < options_.nodes[node].services; ++service) {
            const ServiceAddress at{NodeId{node}, ServiceId{service}};
            Peer& peer = peers_.emplace_back(at, static_cast<uint32_t>(peers_.size()), window, reads_);
            if (node < options_.book.size() && service < options_.book[node].size() &&
                decode_addresses(options_.book[node][service], &peer.addresses, &peer.port))
                order_addresses(end_.own, &peer.addresses);
        }
    }
    first_of_node_.push_back(static_cast<uint32_t>(peers_.size()));
    options_.book.clear();
}

TcpFabric::~TcpFabric() = default;

std::unique_ptr<TcpFabric> TcpFabric::create(NetworkOptions options, TcpEnd end,
                                             std::unique_ptr<ShmFabric> local, std::string* error) {
    // What all streams of data may have in the kernel, and what one may.
    constexpr uint64_t kBuffersBytes = 256u << 20, kBufferMin = 256u << 10, kBufferMax = 4u << 20;
    Fd epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll || !local->watch(epoll.get())) {
        *error = std::string("cannot wait for the network: ") + strerror(errno);
        return nullptr;
    }
    uint64_t peers = 1;
    for (const NodeAddress& node : options.nodes) peers += node.services;
    // A supervisor that did not know that it would be TCP has not looked.
    const uint64_t limit = raise_descriptor_limit();
    const uint64_t needed = descriptors_of_service(static_cast<uint32_t>(options.nodes.size()),
                                                   options.nodes.front().services, true);
    if (needed > limit) {
        *error = too_few_descriptors("a service process", limit, needed);
        return nullptr;
    }
    std::unique_ptr<TcpFabric> fabric(
        new TcpFabric(std::move(options), std::move(end), std::move(local), std::move(epoll)));
    Door::Options door;
    door.self = fabric->options_.self;
    door.incarnation = fabric->options_.incarnation;
    door.nodes = &fabric->options_.nodes;
    door.probes = fabric->probes_;
    door.limit_ns = fabric->options_.limit_ns;
    door.tls = fabric->options_.tls;
    door.buffer_bytes = static_cast<int>(std::clamp(kBuffersBytes / peers, kBufferMin, kBufferMax));
    fabric->door_ =
        Door::create(door, std::move(fabric->end_.share.streams), fabric->epoll_.get(), *fabric, error);
    if (!fabric->door_) fabric.reset();
    return fabric;
}

FabricCounters TcpFabric::counters() const {
    FabricCounters sum = local_->counters();
    sum.messages_sent += counters_.messages_sent;
    sum.messages_received += counters_.messages_received;
    sum.refused += counters_.refused;
    sum.bytes_mapped += counters_.bytes_mapped;
    sum.dropped += counters_.dropped;
    return sum;
}

std::string TcpFabric::take_problem() {
    return problem_.empty() ? local_->take_problem() : std::exchange(problem_, {});
}

Post TcpFabric::send(ServiceAddress to, std::span<const std::byte> message) {
    if (to.node == options_.self.node) return local_->send(to, message);
    Peer* const peer = find(to);
    if (peer == nullptr || peer->state == Peer::State::kLost || message.size() > kFrameBytesMax) {
        ++counters_.dropped;
        return Post::kAccepted;
    }
    if (peer->state == Peer::State::kNone) connect(*peer);
    if (peer->state != Peer::State::kConnected || peer->talk.waiting() > kTalkWaitingMax)
        return Post::kAgain;
    Talk talk;
    talk.kind = TalkKind::kFrame;
    talk.frame = message;
    say(*peer, talk);
    flush_talk(*peer);
    // The frame that tells of them has gone: before it they would be in its way.
    if (peer->serving.release()) mark(*peer);
    ++counters_.messages_sent;
    return Post::kAccepted;
}

Post TcpFabric::import_region(ServiceAddress owner, const RegionName& name,
                              std::span<const std::byte> descriptor, uint64_t id) {
    ProcessSpan span;
    const bool known = decode_span(descriptor, &span) && find(owner) != nullptr;
    done_.push_back(FabricEvent::imported(id, known ? imports_.add({owner, name}) : 0));
    return Post::kAccepted;
}

void TcpFabric::complete(uint64_t id, MoveResult result) {
    done_.push_back(FabricEvent::moved(id, result));
}

// The peer has something to be done in the next turn.
void TcpFabric::mark(Peer& peer) {
    if (std::exchange(peer.marked, true)) return;
    marked_.push_back(&peer);
}

void TcpFabric::take_events() {
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) {
        const uint64_t number = events[i].data.u64;
        if ((number & Door::kEventBit) != 0) {
            door_->on_event(number);
            continue;
        }
        // Of a stream: whose, in which life, and which (watch()).
        Peer& peer = peers_[number >> 32];
        if ((number & 0x7fffffff) != (peer.life & 0x7fffffff)) continue;
        const bool data = (number & 0x80000000) != 0;
        const uint32_t what = events[i].events;
        const bool over = (what & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
        const bool readable = (what & EPOLLIN) != 0 || over, writable = (what & EPOLLOUT) != 0;
        if (data) {
            peer.data_readable |= readable;
            peer.data_writable |= writable;
        } else {
            peer.talk.note_event(readable, writable);
        }
        mark(peer);
    }
}

// Returns whether there is more to be done at once.
bool TcpFabric::turn() {
    turned_ns_ = now_ns();
    take_events();
    turned_.swap(marked_);
    for (Peer* const peer : turned_) {
        peer->marked = false;
        bool more = false;
        if (peer->talk.is_readable()) more |= hear(*peer);
        // What is said would wait on the link behind what is served.
        if (!peer->serving.empty()) flush_talk(*peer);
        if (peer->data_readable) more |= receive(*peer);
        if (peer->data_writable) more |= serve(*peer);
        tell_used(*peer);
        // More may be said in the next turn: it goes out together.
        const bool hold = peer->talk.grows();
        more |= hold;
        if (!hold) flush_talk(*peer);
        if (peer->broken) break_off(*peer, std::exchange(peer->why, {}));
        if (more) mark(*peer);
    }
    turned_.clear();
    look_at_peers(turned_ns_);
    return !marked_.empty();
}

size_t TcpFabric::collect(std::span<FabricEvent> events) {
    size_t count = 0;
    while (count < events.size() && !done_.empty()) {
        events[count++] = done_.front();
        done_.pop_front();
    }
    while (count < events.size() && !frames_.empty()) {
        handed_out_.push_back(std::move(frames_.front()));
        frames_.pop_front();
        const Frame& frame = handed_out_.back();
        FabricEvent& event = events[count++];
        event = {};
        event.kind = FabricEvent::Kind::kMessage;
        event.peer = frame.from;
        event.message = frame.bytes;
        ++counters_.messages_received;
    }
    return count;
}

size_t TcpFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    handed_out_.clear();
    const bool more = turn();
    size_t count = collect(events);
    if (count != 0 || more) wait_ns = 0;
    wait_ns = std::min(wait_ns, connecting_ ? kConnectingWaitNs : options_.limit_ns / 8);
    count += local_->poll(events.subspan(count), wait_ns);
    if (count == 0 && wait_ns != 0) {
        turn();
        count = collect(events);
    }
    return count;
}

}  // namespace longshore
