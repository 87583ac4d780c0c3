// The service process as a thread and the ranks as threads on one node's memory, with real copies: what the
// single-threaded simulator cannot see. Meant for -fsanitize=thread; runs in every build.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "engine/rank_engine.h"
#include "engine/service_engine.h"

namespace longshore {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint32_t kOperations = 2000;
constexpr uint64_t kBlockBytes = 300;  // several chunks
constexpr uint64_t kBufferBytes = kRanks * kBlockBytes;

struct Free {
    void operator()(void* p) const { free(p); }
};
using Block = std::unique_ptr<std::byte, Free>;
Block zeroed(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    void* p = aligned_alloc(64, bytes);
    memset(p, 0, bytes);
    return Block(static_cast<std::byte*>(p));
}

std::byte expected(uint64_t sequence, uint32_t from, uint32_t to, uint64_t i) {
    return static_cast<std::byte>(mix64(sequence * 64 + from * 8 + to) >> (i % 8 * 8));
}

// Buffers lie in the arenas, so every reference resolves the same way in every thread.
std::byte* resolve(const NodeMemory& m, const MemoryRef& r) {
    return m.arena(r.rank) + r.offset;
}

void rank_thread(const NodeMemory& memory, uint32_t index, bool cooperative, std::atomic<uint32_t>& wrong) {
    const LocalRank self{static_cast<uint16_t>(index)};
    Block block = zeroed(RankEngine::bytes_needed(memory.limits()));
    RankEngine engine(block.get(), memory, self);
    const uint64_t send = engine.arena().allocate(kBufferBytes), recv = engine.arena().allocate(kBufferBytes);
    WakeSet wake;
    for (uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
        const bool gather = sequence % 3 == 0;
        for (uint32_t to = 0; to < kRanks; ++to)
            for (uint64_t i = 0; i < kBlockBytes; ++i)
                memory.at<std::byte>(send)[to * kBlockBytes + i] =
                    expected(sequence, index, gather ? 0 : to, i);
        OperationArguments a;
        a.group = GroupSlot{0};
        a.rank = Rank{index};
        a.sequence = sequence;
        a.collective = gather ? Collective::kAllgather : Collective::kAlltoall;
        a.send = {self, kArenaRegion, send - memory.arena_begin(self)};
        a.recv = {self, kArenaRegion, recv - memory.arena_begin(self)};
        a.send_block_bytes = a.recv_block_bytes = kBlockBytes;
        RecordId record;
        while (engine.post(a, true, &record, &wake) == PostResult::kLater) {
            engine.reap(&wake);
            std::this_thread::yield();
        }
        Copy copy;
        while (engine.poll(record) != Progress::kComplete) {
            if (cooperative && engine.claim(record, &copy)) {
                memmove(resolve(memory, copy.to), resolve(memory, copy.from), copy.bytes);
                engine.finish(copy, MoveResult::kMoved, &wake);
            } else {
                std::this_thread::yield();
            }
        }
        for (uint32_t from = 0; from < kRanks; ++from)
            for (uint64_t i = 0; i < kBlockBytes; ++i)
                if (memory.at<std::byte>(recv)[from * kBlockBytes + i] !=
                    expected(sequence, from, gather ? 0 : index, i))
                    ++wrong;
        engine.release(record, &wake);
    }
    engine.arena().release(send, kBufferBytes);
    engine.arena().release(recv, kBufferBytes);
    while (engine.reap(&wake) != 0) std::this_thread::yield();
    if (engine.arena().used_bytes() != 0) ++wrong;
}

void service_thread(const NodeMemory& memory, uint16_t id, std::atomic<bool>& stop) {
    const ServiceId self{id};
    ServiceLimits limits;
    limits.services_per_node_max = 2;
    limits.group_size_max = kRanks;
    Block block = zeroed(ServiceEngine::bytes_needed(memory.limits(), limits));
    WakeSet wake;
    ServiceEngine engine(block.get(), memory, self, 1, limits, &wake);
    const uint16_t counts[] = {2};
    engine.set_peers(counts);
    while (!stop.load()) {
        Action a;
        if (!engine.next(&a, &wake)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(a.kind, Action::Kind::kCopy);
        memmove(resolve(memory, a.copy.to), resolve(memory, a.copy.from), a.copy.bytes);
        engine.finish_copy(a.copy, MoveResult::kMoved, &wake);
    }
}

void run(bool cooperative) {
    NodeLimits l;
    l.ranks_max = kRanks;
    l.services_max = 2;
    l.groups_max = 2;
    l.operations_ahead_max = 2;
    l.records_max = 4;
    l.regions_max = 2;
    l.chunk_bytes = 128;
    l.claims_bytes = l.arena_bytes = l.groups_bytes = 1 << 14;
    Block bytes = zeroed(NodeLayout::of(l).total_bytes);
    const NodeMemory memory = NodeMemory::create(bytes.get(), l, NodeId{0}, 1, kRanks, 2);
    std::vector<Member> members;
    for (uint16_t r = 0; r < kRanks; ++r)
        members.push_back({NodeId{0}, ServiceId{static_cast<uint16_t>(r % 2)}, LocalRank{r}, r});
    memory.create_group(GroupSlot{0}, GroupId{1}, members.data(), kRanks, memory.group_data_begin());
    std::atomic<uint32_t> wrong{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> services, ranks;
    for (uint16_t s = 0; s < 2; ++s) services.emplace_back([&, s] { service_thread(memory, s, stop); });
    for (uint32_t r = 0; r < kRanks; ++r)
        ranks.emplace_back([&, r] { rank_thread(memory, r, cooperative, wrong); });
    for (auto& t : ranks) t.join();
    stop = true;
    for (auto& t : services) t.join();
    EXPECT_EQ(wrong.load(), 0u);
}

TEST(Threads, RanksWorkBesideTheServices) {
    run(true);
}
TEST(Threads, ServicesAlone) {
    run(false);
}

}  // namespace
}  // namespace longshore
