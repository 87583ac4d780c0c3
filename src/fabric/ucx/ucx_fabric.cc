#include "fabric/ucx/ucx_fabric.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "fabric/ucx/peer.h"

namespace longshore {
namespace {
constexpr int kProgressPerTurn = 64;
}  // namespace

bool UcxEnd::open(std::string* error) {
    for (std::unique_ptr<UcxWorker>* worker : {&talk, &data}) {
        *worker = UcxWorker::create(error);
        if (!*worker) return false;
    }
    append_address(talk->address(), &address);
    return true;
}

UcxFabric::UcxFabric(NetworkOptions options, UcxEnd end, std::unique_ptr<ShmFabric> local)
    : options_(std::move(options)),
      local_(std::move(local)),
      source_(options_.memory, *local_, options_.self.service, options_.incarnation),
      end_(std::move(end)),
      probes_(probe_times_of_process(options_.limit_ns, count_others(options_))) {
    peers_.resize(options_.nodes.size());
    for (uint16_t node = 0; node < peers_.size(); ++node) {
        peers_[node].resize(options_.nodes[node].services);
        for (uint16_t service = 0; service < peers_[node].size(); ++service) {
            Peer& peer = peers_[node][service];
            peer.at = {NodeId{node}, ServiceId{service}};
            if (node < options_.book.size() && service < options_.book[node].size())
                peer.address = std::move(options_.book[node][service]);
        }
    }
    options_.book.clear();
    end_.talk->set_listener(this);
    end_.data->set_listener(this);
}

UcxFabric::~UcxFabric() {
    end_.talk->set_listener(nullptr);
    end_.data->set_listener(nullptr);
}

std::unique_ptr<UcxFabric> UcxFabric::create(NetworkOptions options, UcxEnd end,
                                             std::unique_ptr<ShmFabric> local, std::string* error) {
    if (!local->watch(end.talk->event_fd()) || !local->watch(end.data->event_fd())) {
        *error = std::string("cannot wait for the network: ") + strerror(errno);
        return nullptr;
    }
    return std::unique_ptr<UcxFabric>(new UcxFabric(std::move(options), std::move(end), std::move(local)));
}

FabricCounters UcxFabric::counters() const {
    FabricCounters sum = local_->counters();
    sum.messages_sent += counters_.messages_sent;
    sum.messages_received += counters_.messages_received;
    sum.refused += counters_.refused;
    sum.dropped += counters_.dropped;
    return sum;
}

std::string UcxFabric::take_problem() {
    return problem_.empty() ? local_->take_problem() : std::exchange(problem_, {});
}

Post UcxFabric::send(ServiceAddress to, std::span<const std::byte> message) {
    if (to.node == options_.self.node) return local_->send(to, message);
    Peer* const peer = find(to);
    if (peer == nullptr || peer->state == Peer::State::kLost || message.size() > kFrameBytesMax) {
        ++counters_.dropped;
        return Post::kAccepted;
    }
    if (peer->state == Peer::State::kNone) connect(*peer);
    if (peer->state != Peer::State::kConnected || peer->sent - peer->looked_at >= kWindow)
        return Post::kAgain;
    Packet packet;
    packet.kind = PacketKind::kFrame;
    packet.sequence = peer->sent++;
    send_packet(*peer, packet, message);
    ++counters_.messages_sent;
    return Post::kAccepted;
}

void UcxFabric::complete(uint64_t id, MoveResult result) {
    done_.push_back(FabricEvent::moved(id, result));
}

// Data goes to where it belongs at once, while UCX has it; what may lead to further calls of UCX waits, and
// so does what comes right behind a greeting.
void UcxFabric::on_message(std::span<const std::byte> header, std::span<const std::byte> payload) {
    Packet packet;
    if (!decode_packet(header, &packet))
        return refuse("a message that is none of ours, or of another version");
    Peer* const peer = sender_of(packet);
    if (peer == nullptr) return;
    peer->heard_ns = turned_ns_;
    const uint64_t bytes_max = packet.kind == PacketKind::kReadData ? kSentBytesMax : kFrameBytesMax;
    if (payload.size() > bytes_max) {
        peer->broken = true;
        refuse("a message that is too long");
    } else if (packet.kind == PacketKind::kReadData && is_current(*peer, packet)) {
        take_data(*peer, packet, payload);
    } else {
        arrived_.push_back({packet, {payload.begin(), payload.end()}});
    }
}

// An offer that is none of the job's is declined, outside of UCX's callback, so that
// UCX keeps nothing of it.
void UcxFabric::on_offer(std::span<const std::byte> header, uint64_t bytes, UcxOffer offer) {
    Packet packet;
    if (!decode_packet(header, &packet) || packet.kind != PacketKind::kReadData) {
        unwanted_.push_back(offer);
        return refuse("an offer that is none of ours, or of another version");
    }
    Peer* const peer = sender_of(packet);
    if (peer == nullptr) return unwanted_.push_back(offer);
    peer->heard_ns = turned_ns_;
    Arrived& arrived = arrived_.emplace_back();
    arrived.packet = packet;
    arrived.offer = offer;
    arrived.offered = bytes;
}

void UcxFabric::take(Arrived& arrived) {
    const Packet& packet = arrived.packet;
    Peer* const peer = find(packet.from);
    if (!is_current(*peer, packet)) {
        if (arrived.offer != nullptr) end_.talk->decline(arrived.offer);
        ++counters_.dropped;
        return;
    }
    if (arrived.offer != nullptr) return take_offer(*peer, packet, arrived.offered, arrived.offer);
    if (packet.kind != PacketKind::kGreeting && !is_data(packet.kind)) {
        if (packet.taken - peer->looked_at > peer->sent - peer->looked_at)
            return break_off(*peer, "counts more messages than it got");
        peer->looked_at = packet.taken;
    }
    switch (packet.kind) {
        case PacketKind::kGreeting:
            greet(*peer, packet, arrived.payload);
            break;
        case PacketKind::kAlive:
            if (packet.asks) {
                Packet answer;
                answer.kind = PacketKind::kAlive;
                send_packet(*peer, answer);
            }
            break;
        case PacketKind::kFrame:
            take_frame(*peer, packet, std::move(arrived.payload));
            break;
        case PacketKind::kReadRequest:
            take_request(*peer, packet);
            break;
        case PacketKind::kReadData:
            take_data(*peer, packet, arrived.payload);
            break;
        case PacketKind::kReadHeld:
            take_held(*peer, packet);
            break;
        case PacketKind::kTaken:
            break;
    }
}

void UcxFabric::turn() {
    turned_ns_ = awake_ns();
    for (UcxWorker* worker : {end_.talk.get(), end_.data.get()}) {
        // What a message leads to is not kept waiting by the data behind it.
        const bool all = worker == end_.data.get();
        for (int i = 0;
             i < kProgressPerTurn && (all || (arrived_.empty() && done_.empty())) && worker->progress();
             ++i) {
        }
    }
    for (const UcxOffer offer : std::exchange(unwanted_, {})) end_.talk->decline(offer);
    while (!arrived_.empty()) {
        Arrived arrived = std::move(arrived_.front());
        arrived_.pop_front();
        take(arrived);
    }
    if (requests_ != 0) serve();
    if (!over_lendings_.empty()) say_what_held();
    look_at_peers(turned_ns_);
}

size_t UcxFabric::collect(std::span<FabricEvent> events) {
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
        Peer& peer = *find(frame.from);
        if (++peer.taken - peer.told < kWindow / 2 || peer.state != Peer::State::kConnected) continue;
        Packet packet;
        packet.kind = PacketKind::kTaken;
        send_packet(peer, packet);
    }
    return count;
}

size_t UcxFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    handed_out_.clear();
    turn();
    size_t count = collect(events);
    // Armed, UCX wakes who sleeps on the doorbell; until then it may have more to say.
    if (count != 0 || (wait_ns != 0 && !(end_.talk->arm() && end_.data->arm()))) wait_ns = 0;
    if (wait_ns != 0 && watching_) wait_ns = std::min(wait_ns, std::min(options_.limit_ns / 8, kAwakeNs / 2));
    count += local_->poll(events.subspan(count), wait_ns);
    if (count == 0 && wait_ns != 0) {
        turn();
        count = collect(events);
    }
    return count;
}

}  // namespace longshore
