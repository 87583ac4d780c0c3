#include "service/job_book.h"

#include <string.h>

#include <algorithm>

namespace longshore {
namespace {

template <class Head>
std::vector<std::byte> join(const Head& head, const void* rest, size_t bytes) {
    std::vector<std::byte> packet(sizeof head + bytes);
    memcpy(packet.data(), &head, sizeof head);
    if (bytes != 0) memcpy(packet.data() + sizeof head, rest, bytes);
    return packet;
}

}  // namespace

JobBook::JobBook(const ServiceParameters& p)
    : node_count_(p.node_count), services_(p.service_count), workers_(p.network ? p.node_count : 0) {}

bool JobBook::take_nodes(std::span<const std::byte> packet) {
    AddressBookPiece piece;
    if (packet.size() < sizeof piece) return false;
    memcpy(&piece, packet.data(), sizeof piece);
    // One that says nothing would have the whole book sent to every service process again.
    if (piece.count == 0 || piece.count > kAddressesPerPiece ||
        packet.size() != sizeof piece + piece.count * sizeof(NodeAddress) || piece.total != node_count_ ||
        piece.first != nodes_.size() || piece.count > piece.total - piece.first)
        return false;
    std::vector<NodeAddress> told(piece.count);
    memcpy(static_cast<void*>(told.data()), packet.data() + sizeof piece, packet.size() - sizeof piece);
    if (!std::all_of(told.begin(), told.end(), [&](const auto& node) { return is_sound(node, services_); }))
        return false;
    nodes_.insert(nodes_.end(), told.begin(), told.end());
    aliases_ = piece.aliases;
    return true;
}

bool JobBook::take_workers(std::span<const std::byte> packet) {
    NodeWorkers workers;
    if (packet.size() < sizeof workers) return false;
    memcpy(&workers, packet.data(), sizeof workers);
    if (is_whole() || workers.node >= workers_.size() || workers.bytes == 0 ||
        workers.bytes > kWorkersBytesMax || packet.size() != sizeof workers + workers.bytes)
        return false;
    const auto addresses = packet.subspan(sizeof workers);
    workers_[workers.node].assign(addresses.begin(), addresses.end());
    return true;
}

bool JobBook::is_whole() const {
    return nodes_.size() == node_count_ &&
           std::none_of(workers_.begin(), workers_.end(), [](const auto& w) { return w.empty(); });
}

// More than a socket holds, where there are many nodes.
std::vector<std::vector<std::byte>> JobBook::packets() const {
    std::vector<std::vector<std::byte>> packets;
    for (uint32_t first = 0; first < nodes_.size(); first += kAddressesPerPiece) {
        AddressBookPiece piece;
        piece.total = node_count_;
        piece.first = first;
        piece.count = std::min(kAddressesPerPiece, piece.total - first);
        piece.aliases = aliases_;
        packets.push_back(join(piece, &nodes_[first], piece.count * sizeof(NodeAddress)));
    }
    for (uint32_t node = 0; node < workers_.size(); ++node) {
        NodeWorkers workers;
        workers.node = node;
        workers.bytes = static_cast<uint32_t>(workers_[node].size());
        packets.push_back(join(workers, workers_[node].data(), workers.bytes));
    }
    return packets;
}

}  // namespace longshore
