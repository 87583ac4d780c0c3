// What comes from outside: frames. Nothing in them may make the decoder or a service engine read or write
// outside its memory, stop the process, or run for ever. libFuzzer's entry point; fuzz_driver.cc calls it
// where there is none.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/rank_engine.h"
#include "engine/service_engine.h"

namespace {

using namespace longshore;

constexpr uint32_t kActionsMax = 10000;
constexpr uint64_t kBlockBytes = 40;

struct Node {
    NodeLimits limits;
    ServiceLimits service_limits;
    std::byte* bytes;
    std::byte* rank_block;
    std::byte* service_block;

    Node() {
        limits.ranks_max = 2;
        limits.services_max = 2;
        limits.groups_max = 2;
        limits.operations_ahead_max = 2;
        limits.records_max = 4;
        limits.regions_max = 2;
        limits.parked_max = 4;
        limits.chunk_bytes = 16;
        limits.claims_bytes = limits.arena_bytes = limits.groups_bytes = 4096;
        service_limits.nodes_max = 2;
        service_limits.services_per_node_max = 2;
        service_limits.watches_max = 4;
        service_limits.group_size_max = 8;
        service_limits.reads_queued_max = 4;
        service_limits.held_max = 4;
        service_limits.imports_max = 4;
        service_limits.staging_slots = 2;
        service_limits.staging_slot_bytes = 8;
        bytes = allocate(NodeLayout::of(limits).total_bytes);
        rank_block = allocate(RankEngine::bytes_needed(limits));
        service_block = allocate(ServiceEngine::bytes_needed(limits, service_limits));
    }
    // Whether it lies in the arena of a rank, or in staging memory.
    bool has(const MemoryRef& at, uint64_t byte_count) const {
        const uint64_t end = at.rank == kStaging
                                 ? uint64_t{service_limits.staging_slots} * service_limits.staging_slot_bytes
                                 : limits.arena_bytes;
        return at.region == kArenaRegion && at.offset <= end && byte_count <= end - at.offset;
    }
    static std::byte* allocate(size_t n) {
        void* p = aligned_alloc(64, (n + 63) / 64 * 64);
        if (p == nullptr) abort();
        return static_cast<std::byte*>(p);
    }
};

}  // namespace

// Input: frames, each behind two bytes of length.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Node node;
    memset(node.bytes, 0, NodeLayout::of(node.limits).total_bytes);
    memset(node.rank_block, 0, RankEngine::bytes_needed(node.limits));
    memset(node.service_block, 0, ServiceEngine::bytes_needed(node.limits, node.service_limits));
    const NodeMemory memory = NodeMemory::create(node.bytes, node.limits, NodeId{0}, 2, 2, 2);
    const Member members[] = {{NodeId{0}, ServiceId{0}, LocalRank{0}, 0},
                              {NodeId{1}, ServiceId{0}, LocalRank{0}, 0},
                              {NodeId{0}, ServiceId{1}, LocalRank{1}, 1}};
    memory.create_group(GroupSlot{0}, GroupId{1}, members, 3, memory.group_data_begin());
    WakeSet wake;
    RankEngine rank(node.rank_block, memory, LocalRank{0});
    for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
        OperationArguments a;
        a.group = GroupSlot{0};
        a.rank = Rank{0};
        a.sequence = sequence;
        a.algorithm = static_cast<Algorithm>(size % kAlgorithms);
        a.collective = sequence == 1 ? Collective::kAllgather : Collective::kAlltoall;
        a.send = {LocalRank{0}, kArenaRegion, 1024};
        a.recv = {LocalRank{0}, kArenaRegion, 2048};
        a.send_block_bytes = a.recv_block_bytes = kBlockBytes;
        RecordId record;
        if (rank.post(a, true, &record, &wake) != PostResult::kPosted) abort();
    }
    ServiceLimits limits = node.service_limits;
    limits.staging_only = size / kAlgorithms % 2 != 0;
    ServiceEngine engine(node.service_block, memory, ServiceId{0}, 2, limits, &wake);
    const uint16_t counts[] = {2, 2};
    engine.set_peers(counts);
    uint32_t actions = 0;
    for (;;) {
        Action a;
        for (uint32_t i = 0; i < 64 && engine.next(&a, &wake); ++i) {
            if (++actions > kActionsMax) return 0;
            switch (a.kind) {
                case Action::Kind::kCopy:
                    engine.finish_copy(a.copy, MoveResult::kMoved, &wake);
                    break;
                case Action::Kind::kMove:
                    if (!node.has(a.from, a.bytes)) abort();
                    [[fallthrough]];
                case Action::Kind::kRead:
                case Action::Kind::kWrite:
                    if (!node.has(a.to, a.bytes)) abort();
                    engine.finish_read(a.id, actions % 7 ? MoveResult::kMoved : MoveResult::kFailed, &wake);
                    break;
                case Action::Kind::kImport:
                    engine.finish_import(a.id, 1, actions % 3 != 0, &wake);
                    break;
                case Action::Kind::kSend:
                    if (a.data.size() > kFrameBytesMax) abort();
                    break;
                case Action::Kind::kForget:
                    break;
            }
        }
        if (size < 2) break;
        const size_t n = std::min<size_t>(data[0] | (data[1] & 15) << 8, size - 2);
        // A copy of its own size, so that a sanitizer sees every byte beyond it.
        std::unique_ptr<std::byte[]> frame(new std::byte[n]);
        memcpy(frame.get(), data + 2, n);
        FrameReader reader;
        FrameHeader header;
        if (reader.start({frame.get(), n}, &header)) {
            Message m;
            while (reader.next(&m) == FrameReader::Result::kMessage) {
            }
        }
        engine.on_frame({frame.get(), n}, &wake);
        data += 2 + n;
        size -= 2 + n;
    }
    engine.on_tick();
    return 0;
}
