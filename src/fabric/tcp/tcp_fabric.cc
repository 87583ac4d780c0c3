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
constexpr size_t kAnswerLooks = 16, kLooksForAll = 4;  // in a limit; of which so many see all peers
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
      local_(std::move(local)),
      end_(std::move(end)),
      epoll_(std::move(epoll)),
      source_(options_.memory, *local_, options_.self.service, options_.incarnation),
      reads_(local_->copier(), done_) {}

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
    uint64_t peers = 0;
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
    door.limit_ns = fabric->options_.limit_ns;
    door.probes = probe_times_of_kernel(door.limit_ns, count_others(fabric->options_));
    door.tls = fabric->options_.tls;
    door.buffer_bytes = static_cast<int>(std::clamp(kBuffersBytes / (peers + 1), kBufferMin, kBufferMax));
    fabric->connections_ =
        Connections::create(door, fabric->options_.book, fabric->end_.own,
                            std::move(fabric->end_.share.streams), fabric->epoll_.get(), *fabric, error);
    if (!fabric->connections_) return nullptr;
    fabric->options_.book.clear();
    fabric->silence_ns_ = door.probes.silence_ns;
    const AheadWindow window(peers);
    for (uint32_t number = 0; number < fabric->connections_->count(); ++number)
        fabric->peers_.emplace_back(fabric->connections_->address(number), number, window, fabric->reads_);
    return fabric;
}

FabricCounters TcpFabric::counters() const {
    FabricCounters sum = local_->counters();
    sum.messages_sent += counters_.messages_sent;
    sum.messages_received += counters_.messages_received;
    sum.refused += counters_.refused + connections_->refused();
    sum.bytes_mapped += counters_.bytes_mapped;
    sum.dropped += counters_.dropped;
    return sum;
}

std::string TcpFabric::take_problem() {
    const std::string problem = connections_->take_problem();
    return problem.empty() ? local_->take_problem() : problem;
}

TcpFabric::Peer* TcpFabric::find(ServiceAddress peer) {
    const uint32_t number = connections_->find(peer);
    return number == Connections::kNobody ? nullptr : &peers_[number];
}

bool TcpFabric::is_connected(const Peer& peer) const {
    return connections_->state(peer.number) == Connections::State::kConnected;
}

bool TcpFabric::is_lost(const Peer& peer) const {
    return connections_->state(peer.number) == Connections::State::kLost;
}

Post TcpFabric::send(ServiceAddress to, std::span<const std::byte> message) {
    if (to.node == options_.self.node) return local_->send(to, message);
    Peer* const peer = find(to);
    if (peer == nullptr || is_lost(*peer) || message.size() > kFrameBytesMax) {
        ++counters_.dropped;
        return Post::kAccepted;
    }
    connections_->want(peer->number);
    if (!is_connected(*peer) || peer->talk.waiting() > kTalkWaitingMax) return Post::kAgain;
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
        const Connections::Event event = connections_->find_event(events[i].data.u64);
        if (event.peer == Connections::kNobody) continue;
        Peer& peer = peers_[event.peer];
        const uint32_t what = events[i].events;
        const bool over = (what & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
        const bool readable = (what & EPOLLIN) != 0 || over, writable = (what & EPOLLOUT) != 0;
        if (event.kind == StreamKind::kData) {
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
    turned_ns_ = awake_ns();
    connections_->begin_turn(turned_ns_);
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
        if (peer->broken) close(*peer);
        if (more) mark(*peer);
    }
    turned_.clear();
    if (connections_->look()) drop_old_blocks();
    look_for_answers();
    return !marked_.empty();
}

// What has come ahead and nobody reads.
void TcpFabric::drop_old_blocks() {
    std::erase_if(ageing_, [this](Peer* peer) {
        if (peer->coming.drop_old(turned_ns_, options_.ahead_kept_ns)) mark(*peer);  // it is to be told
        peer->ages = !peer->coming.empty();
        return !peer->ages;
    });
}

// Some peers at a time, so that many make no long look: each several times in a limit.
void TcpFabric::look_for_answers() {
    if (turned_ns_ < next_look_ns_ || peers_.empty()) return;
    next_look_ns_ = turned_ns_ + options_.limit_ns / kAnswerLooks;
    const size_t looks = (peers_.size() - 1) / kLooksForAll + 1;
    for (size_t i = 0; i < looks; ++i) {
        Peer& peer = peers_[next_looked_at_++ % peers_.size()];
        if (peer.talk.is_unanswered(silence_ns_) || peer.data.is_unanswered(silence_ns_))
            on_failing(peer.number, nullptr);
    }
}

// --- How streams come and go.

void TcpFabric::take_stream(uint32_t number, StreamKind kind, Stream stream) {
    Peer& peer = peers_[number];
    mark(peer);
    if (kind == StreamKind::kTalk) return peer.talk.open(std::move(stream));
    peer.data = std::move(stream);
    peer.data_readable = peer.data_writable = true;
}

void TcpFabric::on_connected(uint32_t number, bool speaks_first) {
    Talk here;
    here.kind = TalkKind::kHere;
    if (speaks_first) say(peers_[number], here);
    ask_for_all(peers_[number]);
}

void TcpFabric::on_closed(uint32_t number) {
    Peer& peer = peers_[number];
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

void TcpFabric::on_successor(uint32_t number) {
    std::erase_if(frames_, [&](const Frame& frame) { return frame.from == peers_[number].at; });
}

void TcpFabric::on_lost(uint32_t number) {
    // Before the reads that fail because of it: theirs would be said to be a fault of the memory.
    done_.push_back(FabricEvent::lost(peers_[number].at));
    fail_reads(peers_[number]);
}

void TcpFabric::on_failing(uint32_t number, const char* why) {
    peers_[number].broken = true;
    if (why != nullptr) peers_[number].set_broken(why);
    mark(peers_[number]);
}

void TcpFabric::close(Peer& peer) {
    const int error = peer.talk.error() != 0 ? peer.talk.error() : peer.data ? peer.data.error() : 0;
    const std::string why = std::exchange(peer.why, {});
    connections_->close(peer.number, why, error);
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
    wait_ns =
        std::min({wait_ns, connections_->busy() ? kConnectingWaitNs : options_.limit_ns / 8, kAwakeNs / 2});
    count += local_->poll(events.subspan(count), wait_ns);
    if (count == 0 && wait_ns != 0) {
        turn();
        count = collect(events);
    }
    return count;
}

}  // namespace longshore
