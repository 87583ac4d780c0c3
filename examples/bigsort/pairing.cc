#include "pairing.h"

#include <fmt/format.h>

#include <algorithm>

#include "options.h"
#include "patience.h"

namespace bigsort {

std::vector<Role> exchange_roles(MPI_Comm world, Role role) {
    int size = 0;
    MPI_Comm_size(world, &size);
    std::vector<int> all(static_cast<std::size_t>(size));
    const int mine = int(role);
    MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, world);
    std::vector<Role> roles;
    for (const int one : all) roles.push_back(Role(one));
    return roles;
}

bool needs_peers(Offload offload, const std::vector<Role>& roles) {
    const bool some = std::find(roles.begin(), roles.end(), Role::kPeer) != roles.end();
    return offload == Offload::kMpmd || (offload == Offload::kAuto && some);
}

namespace {

// The lowest process of the node that each is on.
std::vector<int> nodes_of_all(MPI_Comm world) {
    int rank = 0, size = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_Comm node;
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    int lowest = rank;
    MPI_Bcast(&lowest, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    std::vector<int> nodes(static_cast<std::size_t>(size));
    MPI_Allgather(&lowest, 1, MPI_INT, nodes.data(), 1, MPI_INT, world);
    return nodes;
}

// The next free peer of the rank's own node for each.
bool pair_on_nodes(const std::vector<int>& ranks, std::vector<int> peers, const std::vector<int>& nodes,
                   std::vector<int>& peer_of) {
    for (const int rank : ranks) {
        const auto peer =
            std::find_if(peers.begin(), peers.end(), [&](int one) { return nodes[one] == nodes[rank]; });
        if (peer == peers.end()) return false;
        peer_of[rank] = *peer;
        peer_of[*peer] = rank;
        peers.erase(peer);
    }
    return true;
}

// The peers in their order, turned until none is on the node of its rank.
bool pair_across_nodes(const std::vector<int>& ranks, std::vector<int> peers, const std::vector<int>& nodes,
                       std::vector<int>& peer_of) {
    for (std::size_t turn = 0; turn < peers.size(); ++turn) {
        bool apart = true;
        for (std::size_t i = 0; i < ranks.size(); ++i) apart = apart && nodes[ranks[i]] != nodes[peers[i]];
        for (std::size_t i = 0; apart && i < ranks.size(); ++i) {
            peer_of[ranks[i]] = peers[i];
            peer_of[peers[i]] = ranks[i];
        }
        if (apart) return true;
        std::rotate(peers.begin(), peers.begin() + 1, peers.end());
    }
    return false;
}

}  // namespace

Pairing pair(MPI_Comm world, const std::vector<Role>& roles, Placement placement) {
    const std::vector<int> nodes = nodes_of_all(world);
    std::vector<int> ranks, peers;
    for (int i = 0; i < int(roles.size()); ++i) (roles[i] == Role::kRank ? ranks : peers).push_back(i);
    Pairing pairing;
    pairing.peer_of.assign(roles.size(), -1);
    if (peers.size() < ranks.size()) {
        pairing.problem = fmt::format(
            "{} ranks need a peer each, there are {}: mpirun -np {} bigsort ... : -np {} bigsort_peer",
            ranks.size(), peers.size(), ranks.size(), ranks.size());
        return pairing;
    }
    const bool same = placement == Placement::kSameHost;
    if (!(same ? pair_on_nodes : pair_across_nodes)(ranks, peers, nodes, pairing.peer_of))
        pairing.problem =
            fmt::format("--placement {}: there is no peer on {} node for each rank: start them elsewhere",
                        name_of(placement), same ? "the same" : "another");
    return pairing;
}

void meet(MPI_Comm world) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(world, &request);
    wait_patiently(&request, 1e9);
}

}  // namespace bigsort
