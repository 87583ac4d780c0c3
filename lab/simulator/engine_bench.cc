// longshore-engine-bench: CPU time of the engine per transfer, without a simulator, a fabric or threads.
// Local: one rank claims and settles all blocks of an alltoall of its node. Remote: two service engines back
// to back, from notification to acknowledgement.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/rank_engine.h"
#include "engine/service_engine.h"

namespace longshore {
namespace {

struct Free {
    void operator()(void* p) const { free(p); }
};
using Block = std::unique_ptr<std::byte, Free>;

Block zeroed(size_t bytes) {
    void* p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    LONGSHORE_CHECK(p != nullptr);
    memset(p, 0, bytes);
    return Block(static_cast<std::byte*>(p));
}

struct Node {
    Block bytes;
    NodeMemory memory;
    std::vector<Block> blocks;
    std::vector<RankEngine> ranks;
};

NodeLimits make_limits(uint32_t ranks) {
    NodeLimits l;
    l.ranks_max = ranks;
    l.groups_max = 4;
    l.operations_ahead_max = 4;
    l.records_max = 16;
    l.regions_max = 4;
    l.claims_bytes = 1 << 16;
    l.arena_bytes = 1 << 16;
    l.groups_bytes = 1 << 16;
    return l;
}

void make_node(Node& n, uint16_t id, uint16_t nodes, const std::vector<Member>& members, uint32_t ranks) {
    const NodeLimits l = make_limits(ranks);
    n.bytes = zeroed(NodeLayout::of(l).total_bytes);
    n.memory = NodeMemory::create(n.bytes.get(), l, NodeId{id}, nodes, static_cast<uint16_t>(ranks), 1);
    n.memory.create_group(GroupSlot{0}, GroupId{1}, members.data(), static_cast<uint32_t>(members.size()),
                          n.memory.group_data_begin());
    for (uint32_t r = 0; r < ranks; ++r) {
        const LocalRank local{static_cast<uint16_t>(r)};
        n.blocks.push_back(zeroed(RankEngine::bytes_needed(l)));
        n.ranks.emplace_back(n.blocks.back().get(), n.memory, local);
        n.memory.region(local, kArenaRegion).descriptor_bytes = 16;
    }
}

OperationArguments alltoall(uint32_t rank, uint64_t sequence, uint32_t node_rank) {
    OperationArguments a;
    a.group = GroupSlot{0};
    a.rank = Rank{rank};
    a.sequence = sequence;
    a.collective = Collective::kAlltoall;
    const LocalRank local{static_cast<uint16_t>(node_rank)};
    a.send = {local, kArenaRegion, 1 << 14};
    a.recv = {local, kArenaRegion, 1 << 15};
    a.send_block_bytes = a.recv_block_bytes = 64;
    return a;
}

// Of this thread: what others do with the core meanwhile is no cost of the engine.
double cpu_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double local_ns(uint32_t ranks, uint32_t laps) {
    std::vector<Member> members;
    for (uint16_t r = 0; r < ranks; ++r) members.push_back({NodeId{0}, ServiceId{0}, LocalRank{r}, r});
    Node n;
    make_node(n, 0, 1, members, ranks);
    uint64_t transfers = 0;
    const double begin = cpu_ns();
    for (uint32_t lap = 1; lap <= laps; ++lap) {
        WakeSet wake;
        std::vector<RecordId> records(ranks);
        for (uint32_t r = 0; r < ranks; ++r)
            LONGSHORE_CHECK(n.ranks[r].post(alltoall(r, lap, r), false, &records[r], &wake) ==
                            PostResult::kPosted);
        Copy copy;
        for (uint32_t r = 0; r < ranks; ++r)
            while (n.ranks[r].claim(records[r], &copy)) {
                n.ranks[r].finish(copy, MoveResult::kMoved, &wake);
                ++transfers;
            }
        for (uint32_t r = 0; r < ranks; ++r) {
            LONGSHORE_CHECK(n.ranks[r].poll(records[r]) == Progress::kComplete);
            n.ranks[r].release(records[r], &wake);
        }
    }
    return (cpu_ns() - begin) / static_cast<double>(transfers);
}

double remote_ns(uint32_t ranks_per_node, uint32_t laps) {
    std::vector<Member> members;
    for (uint16_t k = 0; k < 2; ++k)
        for (uint16_t r = 0; r < ranks_per_node; ++r)
            members.push_back({NodeId{k}, ServiceId{0}, LocalRank{r}, r});
    ServiceLimits limits;
    limits.nodes_max = 2;
    limits.eager_bytes = 0;
    Node nodes[2];
    std::unique_ptr<ServiceEngine> services[2];
    Block blocks[2];
    const uint16_t counts[] = {1, 1};
    WakeSet wake;
    for (uint16_t k = 0; k < 2; ++k) {
        make_node(nodes[k], k, 2, members, ranks_per_node);
        blocks[k] = zeroed(ServiceEngine::bytes_needed(make_limits(ranks_per_node), limits));
        services[k] = std::make_unique<ServiceEngine>(blocks[k].get(), nodes[k].memory, ServiceId{0},
                                                      uint16_t{1}, limits, &wake);
        services[k]->set_peers(counts);
    }
    const auto turn = [&] {
        bool busy = false;
        for (int k = 0; k < 2; ++k) {
            Action a;
            while (services[k]->next(&a, &wake)) {
                busy = true;
                switch (a.kind) {
                    case Action::Kind::kCopy:
                        services[k]->finish_copy(a.copy, MoveResult::kMoved, &wake);
                        break;
                    case Action::Kind::kRead:
                    case Action::Kind::kMove:
                    case Action::Kind::kWrite:
                        services[k]->finish_read(a.id, MoveResult::kMoved, &wake);
                        break;
                    case Action::Kind::kSend:
                        services[1 - k]->on_frame(a.data, &wake);
                        break;
                    case Action::Kind::kSendAlong:
                        break;
                }
            }
        }
        return busy;
    };
    const double begin = cpu_ns();
    for (uint32_t lap = 1; lap <= laps; ++lap) {
        std::vector<RecordId> records(members.size());
        for (uint32_t r = 0; r < members.size(); ++r) {
            RankEngine& rank = nodes[members[r].node.value].ranks[members[r].local.value];
            LONGSHORE_CHECK(rank.post(alltoall(r, lap, members[r].local.value), true, &records[r], &wake) ==
                            PostResult::kPosted);
        }
        while (turn()) {
        }
        for (uint32_t r = 0; r < members.size(); ++r) {
            RankEngine& rank = nodes[members[r].node.value].ranks[members[r].local.value];
            LONGSHORE_CHECK(rank.poll(records[r]) == Progress::kComplete);
            rank.release(records[r], &wake);
        }
    }
    return (cpu_ns() - begin) / (static_cast<double>(members.size() * members.size()) * laps);
}

}  // namespace
}  // namespace longshore

// With an argument: one sample of so many laps. What they are in instructions tests/sim/test_instructions.py
// sees.
int main(int argc, char** argv) {
    const int samples = argc > 1 ? 1 : 5;
    const uint32_t laps = argc > 1 ? static_cast<uint32_t>(strtoul(argv[1], nullptr, 10)) : 2000;
    for (int remote = 0; remote < 2; ++remote) {
        double best = 1e9;
        for (int sample = 0; sample < samples; ++sample)
            best = std::min(best, remote ? longshore::remote_ns(8, laps) : longshore::local_ns(16, laps));
        printf("%s: %.0f ns per transfer (best of %d)\n",
               remote ? "two nodes, notify - read - acknowledge, 2 x 8 ranks" : "local claims, 16 ranks",
               best, samples);
    }
    return 0;
}
