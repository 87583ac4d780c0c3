// What comes from outside: frames. Nothing in them may make the decoder or a service engine read or write
// outside its memory, stop the process, or run for ever. libFuzzer's entry point; fuzz_driver.cc calls it
// where there is none.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

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
        limits.operations_ahead_max = 8;
        limits.records_max = 8;
        limits.regions_max = 2;
        limits.chunk_bytes = 16;
        limits.claims_bytes = limits.arena_bytes = limits.groups_bytes = 4096;
        service_limits.nodes_max = 3;
        service_limits.services_per_node_max = 2;
        service_limits.watches_max = 4;
        service_limits.group_size_max = 8;
        service_limits.reads_queued_max = 4;
        service_limits.rows_max = 4;
        service_limits.staging_slots = 3;
        service_limits.sends_along = true;
        bytes = allocate(NodeLayout::of(limits).total_bytes);
        rank_block = allocate(RankEngine::bytes_needed(limits));
        service_block = allocate(ServiceEngine::bytes_needed(limits, service_limits));
    }
    // Whether it lies in the arena of a rank, or in staging memory.
    bool has(const MemoryRef& at, uint64_t byte_count, uint32_t slot_bytes) const {
        const uint64_t end =
            at.rank == kStaging ? uint64_t{service_limits.staging_slots} * slot_bytes : limits.arena_bytes;
        return at.region == kArenaRegion && at.offset <= end && byte_count <= end - at.offset;
    }
    static std::byte* allocate(size_t n) {
        void* p = aligned_alloc(64, (n + 63) / 64 * 64);
        if (p == nullptr) abort();
        return static_cast<std::byte*>(p);
    }
};

RecordId post(RankEngine& rank, uint32_t group, uint64_t sequence, Collective collective, Algorithm algorithm,
              WakeSet* wake) {
    OperationArguments a;
    a.group = GroupSlot{group};
    a.rank = Rank{0};
    a.root = Rank{1};
    a.sequence = sequence;
    a.algorithm = algorithm;
    a.collective = collective;
    a.send = {LocalRank{0}, kArenaRegion, 1024};
    a.recv = {LocalRank{0}, kArenaRegion, 2048};
    a.send_block_bytes = a.recv_block_bytes = kBlockBytes;
    RecordId record;
    if (rank.post(a, true, &record, wake) != PostResult::kPosted) abort();
    return record;
}

NodeMemory make_memory(const Node& node) {
    memset(node.bytes, 0, NodeLayout::of(node.limits).total_bytes);
    const NodeMemory memory = NodeMemory::create(node.bytes, node.limits, NodeId{0}, 3, 2, 2);
    const Member members[] = {{NodeId{0}, ServiceId{0}, LocalRank{0}, 0},
                              {NodeId{1}, ServiceId{0}, LocalRank{0}, 0},
                              {NodeId{0}, ServiceId{1}, LocalRank{1}, 1},
                              {NodeId{2}, ServiceId{0}, LocalRank{0}, 0}};
    memory.create_group(GroupSlot{0}, GroupId{1}, members, 4, memory.group_data_begin());
    // Of the second group no other rank is here: its broadcast can end.
    const Member others[] = {members[0], members[1], members[3]};
    memory.create_group(GroupSlot{1}, GroupId{2}, others, 3,
                        memory.group_data_begin() + NodeMemory::group_bytes(node.limits, members, NodeId{0}));
    return memory;
}

// Up to 64 actions of the engine, each ended at once. False: it has had its share of this input.
bool run_engine(ServiceEngine& engine, const Node& node, uint32_t slot_bytes, uint32_t* actions,
                WakeSet* wake) {
    Action a;
    for (uint32_t i = 0; i < 64 && engine.next(&a, wake); ++i) {
        if (++*actions > kActionsMax) return false;
        switch (a.kind) {
            case Action::Kind::kCopy:
                engine.finish_copy(a.copy, MoveResult::kMoved, wake);
                break;
            case Action::Kind::kMove:
                if (!node.has(a.from, a.bytes, slot_bytes)) abort();
                [[fallthrough]];
            case Action::Kind::kRead:
            case Action::Kind::kWrite:
                if (!node.has(a.to, a.bytes, slot_bytes)) abort();
                engine.finish_read(a.id, *actions % 7 ? MoveResult::kMoved : MoveResult::kFailed, wake);
                break;
            case Action::Kind::kSend:
                if (a.data.size() > kFrameBytesMax) abort();
                break;
            case Action::Kind::kSendAlong:
                if (!node.has({a.name.rank, a.name.region, a.offset}, a.bytes, slot_bytes)) abort();
                break;
        }
    }
    return true;
}

// The next frame of the input: 12 bits of length, and one that says that its header's version and length are
// to be put right, so that what mutates it need not. In a copy of its own size: a sanitizer sees every byte
// beyond it.
std::span<const std::byte> next_frame(const uint8_t** data, size_t* size,
                                      std::unique_ptr<std::byte[]>* copy) {
    const uint8_t* const at = *data;
    const size_t n = std::min<size_t>(at[0] | (at[1] & 15) << 8, *size - 2);
    copy->reset(new std::byte[n]);
    memcpy(copy->get(), at + 2, n);
    if ((at[1] & 128) != 0 && n >= kFrameHeaderBytes) {
        const uint8_t begin[] = {kWireVersion, static_cast<uint8_t>(WireService::kOperations),
                                 static_cast<uint8_t>(n), static_cast<uint8_t>(n >> 8)};
        memcpy(copy->get(), begin, sizeof begin);
    }
    *data += 2 + n;
    *size -= 2 + n;
    return {copy->get(), n};
}

}  // namespace

// Input: frames, each behind two bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Node node;
    memset(node.rank_block, 0, RankEngine::bytes_needed(node.limits));
    memset(node.service_block, 0, ServiceEngine::bytes_needed(node.limits, node.service_limits));
    const NodeMemory memory = make_memory(node);
    WakeSet wake;
    RankEngine rank(node.rank_block, memory, LocalRank{0});
    const auto any = static_cast<Algorithm>(size % kAlgorithms);
    post(rank, 0, 1, Collective::kAllgather, any, &wake);
    post(rank, 0, 2, Collective::kAlltoall, any, &wake);
    post(rank, 0, 3, Collective::kBcast, Algorithm::kStaged, &wake);  // round a ring of service processes
    const RecordId ends = post(rank, 1, 1, Collective::kBcast, Algorithm::kDirect, &wake);
    ServiceLimits limits = node.service_limits;
    limits.staging_only = size / kAlgorithms % 2 != 0;
    limits.staging_slot_bytes = size / kAlgorithms % 4 < 2 ? 8 : 16;  // chunks in pieces, or relayed
    ServiceEngine engine(node.service_block, memory, ServiceId{0}, 2, limits, &wake);
    const uint16_t counts[] = {2, 2, 2};
    engine.set_peers(counts);
    bool ended = false;
    for (uint32_t actions = 0, frames = 0;;) {
        if (!run_engine(engine, node, limits.staging_slot_bytes, &actions, &wake)) return 0;
        if (size < 2) break;
        std::unique_ptr<std::byte[]> copy;
        const auto frame = next_frame(&data, &size, &copy);
        FrameReader reader;
        FrameHeader header;
        if (reader.start(frame, &header)) {
            Message m;
            while (reader.next(&m) == FrameReader::Result::kMessage) {
                RowReader rows(m.told);
                for (Row row; rows.next(&row);) {
                    SpanReader spans(row);
                    for (BlockSpan span; spans.next(&span);) {
                    }
                }
            }
        }
        engine.on_frame(frame, &wake);
        if (++frames == 4) {  // what came for them before was early
            post(rank, 0, 4, Collective::kAlltoall, any, &wake);
            post(rank, 0, 5, Collective::kAllgather, any, &wake);
        }
        if (!ended && rank.poll(ends) == Progress::kComplete) {
            ended = true;
            rank.release(ends, &wake);
        }
    }
    engine.on_tick(&wake);
    return 0;
}
