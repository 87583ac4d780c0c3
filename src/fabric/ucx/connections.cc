// How connections to other nodes' service processes come and go.
#include <algorithm>
#include <utility>

#include "fabric/ucx/peer.h"

namespace longshore {
namespace {
constexpr uint64_t kLooksPerLimit = 16;
}  // namespace

UcxFabric::Peer* UcxFabric::find(ServiceAddress peer) {
    if (peer.node.value >= peers_.size() || peer.node == options_.self.node) return nullptr;
    auto& services = peers_[peer.node.value];
    return peer.service.value < services.size() ? &services[peer.service.value] : nullptr;
}

std::string UcxFabric::name_of(const Peer& peer) const {
    const char* host = options_.nodes[peer.at.node.value].host;
    std::string name = "service process " + std::to_string(peer.at.service.value) + " of node " +
                       std::to_string(peer.at.node.value);
    return *host != 0 ? name + " (" + host + ")" : name;
}

void UcxFabric::refuse(const char* what) {
    ++counters_.refused;
    if (!std::exchange(told_refused_, true)) problem_ = std::string("refused ") + what;
}

UcxEndpoint* UcxFabric::reach(UcxWorker& worker, const Peer& peer) {
    std::vector<std::vector<std::byte>> addresses;
    return split_addresses(peer.address, 1, &addresses) ? worker.connect(addresses[0]) : nullptr;
}

// That for data is made when there are some: UCX 1.13 stops on an assertion of its own where a connection is
// closed that has not been set up.
void UcxFabric::connect(Peer& peer) {
    peer.heard_ns = turned_ns_ = awake_ns();
    peer.state = Peer::State::kConnected;
    watching_ = true;
    peer.talk = reach(*end_.talk, peer);
    if (peer.talk == nullptr) return break_off(peer, "has an address that UCX cannot use");
    Packet packet;
    packet.kind = PacketKind::kGreeting;
    send_packet(peer, packet, end_.address);
}

void UcxFabric::disconnect(Peer& peer) {
    if (peer.talk != nullptr) end_.talk->close(std::exchange(peer.talk, nullptr));
    if (peer.data != nullptr) end_.data->close(std::exchange(peer.data, nullptr));
}

void UcxFabric::send_packet(Peer& peer, Packet packet, std::span<const std::byte> payload, uint64_t lent) {
    packet.from = options_.self;
    packet.to = peer.at;
    packet.incarnation = options_.incarnation;
    packet.token = options_.nodes[peer.at.node.value].token;
    // What is counted is in order on the way of messages only.
    const bool data = is_data(packet.kind);
    if (!data) packet.taken = peer.told = peer.taken;
    if (data && peer.data == nullptr && peer.talk != nullptr) {
        peer.data = reach(*end_.data, peer);
        peer.broken |= peer.data == nullptr;
    }
    UcxWorker& worker = data ? *end_.data : *end_.talk;
    UcxEndpoint* const way = data ? peer.data : peer.talk;
    std::byte header[kPacketHeaderBytesMax];
    const auto bytes = encode_packet(packet, header);
    const bool offered = data && payload.size() > kSentBytesMax;
    const bool sent = way != nullptr && (offered ? worker.offer(way, bytes, payload, lent)
                                                 : worker.send(way, bytes, payload, lent));
    if (!sent && lent != 0) on_sent(lent);
}

// The service process of this job that sends it, to this one. Null: refused.
UcxFabric::Peer* UcxFabric::sender_of(const Packet& packet) {
    Peer* const peer = find(packet.from);
    if (peer != nullptr && packet.to == options_.self &&
        same_token(packet.token, options_.nodes[options_.self.node.value].token))
        return peer;
    refuse("a message without the job's token");
    return nullptr;
}

// Not of a former life, nor of a connection that is over.
bool UcxFabric::is_current(const Peer& peer, const Packet& packet) const {
    if (peer.state == Peer::State::kLost) return false;
    if (packet.kind == PacketKind::kGreeting) return packet.incarnation >= peer.incarnation;
    // Data has a way of its own, and may come before the greeting of who was asked for it.
    return (peer.greeted || is_data(packet.kind)) && packet.incarnation == peer.incarnation &&
           peer.state != Peer::State::kDown;
}

// A newer one takes the place of its former self, and finds our requests as its former self had them.
void UcxFabric::greet(Peer& peer, const Packet& packet, std::span<const std::byte> address) {
    if (packet.incarnation == peer.incarnation) {
        if (peer.state == Peer::State::kDown) return;
        if (std::exchange(peer.greeted, true)) return break_off(peer, "greets twice");
    } else {
        disconnect(peer);
        const ServiceAddress at = peer.at;
        drop_requests(peer);
        std::erase_if(frames_, [&](const Frame& frame) { return frame.from == at; });
        peer = Peer{};
        peer.at = at;
        peer.incarnation = packet.incarnation;
        peer.greeted = true;
        peer.address.assign(address.begin(), address.end());
    }
    // Who talks to us is watched, although we may have nothing to say.
    if (peer.state == Peer::State::kNone) connect(peer);
    reissue(peer);
}

void UcxFabric::take_frame(Peer& peer, const Packet& packet, std::vector<std::byte> bytes) {
    if (packet.sequence != peer.expected) return break_off(peer, "sends messages that are not in order");
    if (peer.expected - peer.taken >= kWindow) return break_off(peer, "sends more messages than it may");
    ++peer.expected;
    frames_.push_back({peer.at, std::move(bytes)});
}

void UcxFabric::on_broken(UcxEndpoint* endpoint) {
    for (auto& node : peers_) {
        for (Peer& peer : node) peer.broken |= peer.talk == endpoint || peer.data == endpoint;
    }
}

// Nothing comes from this connection any more.
void UcxFabric::break_off(Peer& peer, const char* why) {
    if (peer.state != Peer::State::kConnected) return;
    disconnect(peer);
    peer.state = Peer::State::kDown;
    peer.broken = false;
    peer.down_since_ns = turned_ns_;
    drop_requests(peer);
    if (why == nullptr) return;
    ++counters_.refused;
    problem_ = name_of(peer) + " " + why + ": the connection is closed";
}

void UcxFabric::lose(Peer& peer) {
    peer.state = Peer::State::kLost;
    if (problem_.empty()) problem_ = name_of(peer) + " is gone, and none has taken its place";
    // Before the reads that fail because of it: theirs would be said to be a fault of the memory.
    done_.push_back(FabricEvent::lost(peer.at));
    fail_reads(peer);
}

// How many peers may be asked in that time, at most as many as in a second.
uint64_t UcxFabric::asks_in(uint64_t ns) {
    constexpr uint64_t kSecond = 1'000'000'000;
    return std::max<uint64_t>(1, std::min(ns, kSecond) * kProbesPerSecond / kSecond);
}

// UCX finds out that a process has ended, but not that a link has been cut.
void UcxFabric::look_at_peers(uint64_t now) {
    if (now - looked_ns_ < options_.limit_ns / kLooksPerLimit) {
        return;
    }
    uint64_t asks_left = asks_in(now - std::exchange(looked_ns_, now));
    watching_ = false;
    const size_t begin = next_asked_;
    bool waits = false;  // some peer that should be asked was not
    for (size_t i = 0; i < peers_.size(); ++i) {
        const size_t node = (begin + i) % peers_.size();
        for (Peer& peer : peers_[node]) {
            watching_ |= peer.state != Peer::State::kNone && peer.state != Peer::State::kLost;
            if (peer.broken) break_off(peer, nullptr);
            if (peer.state == Peer::State::kDown && now - peer.down_since_ns >= options_.limit_ns) lose(peer);
            if (peer.state != Peer::State::kConnected) continue;
            const uint64_t silent = now - std::min(now, peer.heard_ns);
            if (silent >= probes_.silence_ns) {
                break_off(peer,
                          "has not answered for six times as long as LONGSHORE_LIMIT_S says, or longer");
                lose(peer);
            } else if (silent >= probes_.idle_ns && now - peer.asked_ns >= probes_.step_ns) {
                // The others have their turn at the next look.
                if (asks_left == 0) {
                    if (!std::exchange(waits, true)) next_asked_ = node;
                    continue;
                }
                --asks_left;
                peer.asked_ns = now;
                Packet packet;
                packet.kind = PacketKind::kAlive;
                packet.asks = true;
                send_packet(peer, packet);
            }
        }
    }
}

}  // namespace longshore
