// ServiceEngine: blocks of this service process's ranks, told to those that read them. Of an operation each
// other service process that serves its members is told once, in one message: a row for each rank that has
// entered. Ranks that enter later are told of when they do. A record says who has acknowledged, so that
// whoever starts anew tells what has not been.
#include <algorithm>
#include <cstring>

#include "engine/service_state.h"

namespace longshore {
namespace {

constexpr uint32_t kRowsPerVisit = 64;

// Where a peer's acknowledgement is kept; of another generation where the record is recycled.
Atomic<ChunkWord>* acknowledgement_word(const NodeMemory& memory, const OperationRecord& record,
                                        uint32_t index) {
    const uint64_t offset = load_relaxed(&record.acknowledged_offset);
    Atomic<ChunkWord>* words = memory.at_checked<Atomic<ChunkWord>>(offset, uint64_t{index} + 1);
    return offset != 0 && words != nullptr ? &words[index] : nullptr;
}

bool acknowledged(const NodeMemory& memory, const OperationRecord& record, const RecordLook& seen,
                  uint32_t index) {
    const Atomic<ChunkWord>* word = acknowledgement_word(memory, record, index);
    return word == nullptr ||
           word->load(std::memory_order_acquire) != chunk_word(seen.generation, ChunkState::kFree);
}

// What a rank gives to the ranks of one peer, in their order; of a shared block what it gives to any.
struct Given {
    Block blocks[kRanksPerNodeMax];
    uint32_t count = 0, with_bytes = 0, only = 0;  // only: the last with bytes
};

void look_at_given(const NodeMemory& memory, const GroupEntry& group, const GroupPeer& peer,
                   const Geometry& geometry, bool shared, Given* out) {
    const auto members = memory.members_of(group, peer);
    for (uint32_t k = 0; k < members.size() && k < kRanksPerNodeMax; ++k) {
        out->blocks[k] = geometry.outgoing(Rank{members[k]});
        out->count = k + 1;
        if (out->blocks[k].bytes == 0) continue;
        ++out->with_bytes;
        out->only = k;
        if (shared) return;
    }
}

}  // namespace

// A service process's place in the group; the number of peers if it serves none of its members.
uint32_t ServiceEngine::State::find_peer(const GroupEntry& group, ServiceAddress at) const {
    const auto all = memory.peers(group);
    const auto place = [](ServiceAddress a) { return uint32_t{a.node.value} << 16 | a.service.value; };
    const auto found = std::lower_bound(all.begin(), all.end(), place(at),
                                        [&](const GroupPeer& p, uint32_t x) { return place(p.at) < x; });
    return static_cast<uint32_t>(found != all.end() && found->at == at ? found - all.begin() : all.size());
}

// Any of a node's service processes can see to a shared block: the sources are spread over them.
ServiceAddress ServiceEngine::State::teller_for(const GroupEntry& group, uint32_t node_first,
                                                Rank source) const {
    const auto all = memory.peers(group);
    uint32_t count = 1;
    while (node_first + count < all.size() && all[node_first + count].node_first == node_first) ++count;
    return all[node_first + source.value % count].at;
}

// Marks who is to be told: peers on other nodes that have not acknowledged. `only`: one of them.
void ServiceEngine::State::rearm(uint32_t i, const ServiceAddress* only) {
    Watch& w = watches[i];
    const OperationRecord& record = memory.record(w.local, w.record);
    const GroupEntry& group = memory.group(w.seen.group);
    if (!w.several_nodes || !Geometry(memory, record, w.local).is_source(w.seen.rank)) return;
    const bool shared = is_shared(w.seen.collective);
    w.repeats |= only != nullptr;
    const auto all = memory.peers(group);
    for (uint32_t p = 0; p < all.size(); ++p) {
        const ServiceAddress at = all[p].at;
        if (at.node == memory.node() || !known(at) || (shared && all[p].node_first != p)) continue;
        if (only != nullptr && (at.node != only->node || (!shared && at.service != only->service))) continue;
        if (test_bit(due_bits(i), p) || acknowledged(memory, record, w.seen, p)) continue;
        set_bit(due_bits(i), p);
        ++w.due_count;
        ++share_pool[w.share].due_count;
        w.small_peer = kNone;
    }
    // The record may have retired meanwhile; then what was read above means nothing, and the watch goes.
    if (!still(w)) forget_due(i);
    if (w.due_count != 0) w.unacknowledged = true;
}

void ServiceEngine::State::forget_due(uint32_t i) {
    Watch& w = watches[i];
    share_pool[w.share].due_count -= w.due_count;
    w.due_count = 0;
    for (uint32_t k = 0; k < words; ++k) due_bits(i)[k] = 0;
}

void ServiceEngine::State::plan_telling(uint32_t i) {
    Share& s = share_pool[watches[i].share];
    // The right neighbour first, so that not all begin with the same one.
    const GroupEntry& group = memory.group(watches[i].seen.group);
    if (s.due_count == 0) s.due_next = memory.members(group)[watches[i].seen.rank.value].peer + 1;
    rearm(i, nullptr);
}

// Returns whether something was told.
bool ServiceEngine::State::tell(Share& s) {
    GroupSlot slot;
    const GroupEntry* group = find_group(s.operation.group, &slot);
    const uint32_t peers_count = group != nullptr ? group->peer_count : 0;
    uint32_t told = 0;
    for (uint32_t looked = 0; looked < peers_count && s.due_count != 0 && told < kRowsPerVisit; ++looked) {
        if (s.due_next >= peers_count) s.due_next = 0;
        if (!tell_peer(s, s.due_next, &told)) return told != 0;
        ++s.due_next;
    }
    return told != 0;
}

// Small blocks of all ranks first, then all rows, which are so in one message. False: the frame is full.
bool ServiceEngine::State::tell_peer(Share& s, uint32_t p, uint32_t* told) {
    for (const bool small_blocks : {true, false}) {
        uint32_t i = s.watch;
        for (uint32_t n = s.watch_count; n != 0; --n, i = watches[i].share_next) {
            if (watches[i].helps || watches[i].due_count == 0 || !test_bit(due_bits(i), p)) continue;
            if (!still(watches[i])) continue;
            if (!(small_blocks ? send_small(i, p) : tell_row(i, p))) return false;
            *told += !small_blocks;
        }
    }
    return true;
}

// Blocks that lie in the node's memory and are small enough to go with the frame. False: it is full.
bool ServiceEngine::State::send_small(uint32_t i, uint32_t p) {
    Watch& w = watches[i];
    const OperationRecord& record = memory.record(w.local, w.record);
    if (load_relaxed(&record.send_region) != kArenaRegion.value) return true;
    const GroupEntry& group = memory.group(w.seen.group);
    const Geometry geometry(memory, record, w.local);
    const bool shared = is_shared(w.seen.collective);
    const GroupPeer& to = memory.peers(group)[p];
    const auto members = memory.members_of(group, to);
    if (w.small_peer != p) w.small_next = 0;
    w.small_peer = p;
    for (; w.small_next < members.size(); ++w.small_next) {
        const uint32_t rank = members[w.small_next];
        const Block block = geometry.outgoing(Rank{rank});
        if (block.bytes == 0 || block.bytes > limits.eager_bytes) continue;
        Message m;
        m.kind = MessageKind::kSmallBlock;
        m.small.operation = share_pool[w.share].operation;
        m.small.source = w.seen.rank;
        m.small.destination = shared ? kToNode | to.at.node.value : rank;
        m.small.bytes = {memory.arena(w.local) + block.at.offset, static_cast<size_t>(block.bytes)};
        if (!still(w)) return true;
        if (!add(shared ? teller_for(group, p, w.seen.rank) : to.at, m)) return false;
        ++counters->eager_blocks;
        if (shared) w.small_next = static_cast<uint32_t>(members.size());
    }
    return true;
}

// Whether the blocks of a row need not be asked for: told for the first time, to the service process that
// reads them, and read in one piece. Of an allgather's any of a node's may be that; a broadcast's comes from
// several nodes.
bool ServiceEngine::State::goes_along(const Watch& w, ServiceAddress to) const {
    if (!limits.sends_along || w.repeats || is_staged(w)) return false;
    if (!is_shared(w.seen.collective)) return true;
    return w.seen.collective != Collective::kBcast && services_of[to.node.value] == 1;
}

// False: the frame is full.
bool ServiceEngine::State::tell_row(uint32_t i, uint32_t p) {
    Watch& w = watches[i];
    const OperationRecord& record = memory.record(w.local, w.record);
    const GroupEntry& group = memory.group(w.seen.group);
    const Geometry geometry(memory, record, w.local);
    const bool shared = is_shared(w.seen.collective);
    const GroupPeer& peer_at = memory.peers(group)[p];
    const auto members = memory.members_of(group, peer_at);
    const ServiceAddress to = shared ? teller_for(group, p, w.seen.rank) : peer_at.at;
    Given given;
    look_at_given(memory, group, peer_at, geometry, shared, &given);
    const RegionId region = given.blocks[given.only].at.region;
    const bool in_arena = region == kArenaRegion;

    Told told;
    told.operation = share_pool[w.share].operation;
    told.collective = w.seen.collective;
    told.origin = here();
    Row row;
    row.source = w.seen.rank;
    row.local_index = static_cast<uint16_t>(w.local_index);
    row.region = region;
    if (region.value < memory.limits().regions_max)
        row.generation = memory.region(w.local, region).generation.load(std::memory_order_acquire);
    if (!still(w)) return true;
    const auto has_told = [&] {
        clear_bit(due_bits(i), p);
        --w.due_count;
        --share_pool[w.share].due_count;
    };
    if (given.with_bytes == 0) {  // does not lie in its region: nobody may read it
        has_told();
        return true;
    }
    const bool small_ones = in_arena && given.blocks[given.only].bytes <= limits.eager_bytes;
    row.along = !small_ones && alongs.room() >= given.with_bytes && goes_along(w, to);
    BlockSpan parts[kRanksPerNodeMax];
    if (shared || given.with_bytes == 1) {
        row.form = Row::Form::kOne;
        row.destination = shared ? kToNode | to.node.value : members[given.only];
        row.offset = given.blocks[given.only].at.offset;
        row.bytes = given.blocks[given.only].bytes;
    } else if (is_uniform(given.blocks, members)) {
        row.form = Row::Form::kUniform;
        row.bytes = given.blocks[0].bytes;
        row.stride = (given.blocks[1].at.offset - given.blocks[0].at.offset) / (members[1] - members[0]);
        row.offset = given.blocks[0].at.offset - members[0] * row.stride;
    } else {
        row.form = Row::Form::kSpans;
        row.span_count = static_cast<uint16_t>(members.size());
        row.span_first = static_cast<uint16_t>(w.row_peer == p ? w.spans_told : 0);
        for (uint32_t k = row.span_first; k < members.size(); ++k)
            parts[k] = {given.blocks[k].at.offset, given.blocks[k].bytes};
    }
    const uint32_t spans_left = row.span_count - row.span_first;
    const uint32_t written = add_row(to, MessageKind::kTell, told, row, {parts + row.span_first, spans_left});
    if (written == 0) return false;
    if (row.form == Row::Form::kSpans && written != spans_left) {
        w.row_peer = p;
        w.spans_told = row.span_first + written;
        frame_full = true;
        return false;
    }
    w.row_peer = kNone;
    w.spans_told = 0;
    if (row.along)
        for (uint32_t k = 0; k < given.count; ++k)
            if (given.blocks[k].bytes != 0)
                send_along(to, {told.operation, row.source, shared ? row.destination : members[k]},
                           {w.local, region, row.generation}, given.blocks[k]);
    ++counters->notifications;
    has_told();
    return true;
}

// Equal blocks, as far from each other as their ranks say.
bool ServiceEngine::State::is_uniform(const Block* blocks, std::span<const uint32_t> members) const {
    const uint64_t distance = blocks[1].at.offset - blocks[0].at.offset;
    const uint64_t stride = distance / (members[1] - members[0]);
    for (size_t k = 0; k < members.size(); ++k)
        if (blocks[k].bytes != blocks[0].bytes ||
            blocks[k].at.offset - blocks[0].at.offset != (members[k] - members[0]) * stride)
            return false;
    return true;
}

void ServiceEngine::State::send_along(ServiceAddress to, const BlockName& name, const RegionName& region,
                                      const Block& block) {
    const uint32_t i = alongs.take();
    DueAlong& along = alongs[i];
    along.to = to;
    along.block = name;
    along.region = region;
    along.offset = block.at.offset;
    along.bytes = block.bytes;
    push_back(alongs.items, &due_alongs, i);
}

bool ServiceEngine::State::next_along(Action* out) {
    const uint32_t i = pop_front(alongs.items, &due_alongs);
    if (i == kNone) return false;
    const DueAlong& along = alongs[i];
    *out = Action{};
    out->kind = Action::Kind::kSendAlong;
    out->peer = along.to;
    out->part.block = along.block;
    out->name = along.region;
    out->offset = along.offset;
    out->bytes = along.bytes;
    alongs.give(i);
    return true;
}

void ServiceEngine::State::on_acknowledge(ServiceAddress from, const Acknowledgement& a, WakeSet* wake) {
    GroupSlot slot;
    const GroupEntry* group = find_group(a.operation.group, &slot);
    if (group == nullptr) return;
    const uint32_t p = find_peer(*group, from);
    if (p == group->peer_count || from.node == memory.node()) return;
    for (uint64_t bits = a.sources; bits != 0; bits &= bits - 1) {
        const uint32_t k = a.first + static_cast<uint32_t>(__builtin_ctzll(bits));
        RecordId id;
        if (k >= group->local_count ||
            entered(memory, *group, k, a.operation.sequence, &id) != Entered::kPublished)
            continue;
        const LocalRank local = memory.members(*group)[memory.locals(*group)[k]].local;
        RecordLook seen;
        if (!look(memory.record(local, id), &seen) || seen.sequence != a.operation.sequence ||
            seen.group != slot)
            continue;
        settle_peer(local, id, seen, is_shared(seen.collective) ? memory.peers(*group)[p].node_first : p,
                    a.failed, wake);
    }
}

// A peer has read what a rank gives it, or never will.
void ServiceEngine::State::settle_peer(LocalRank local, RecordId id, const RecordLook& seen, uint32_t p,
                                       bool failed, WakeSet* wake) {
    // After the swap the source may complete, and its group be gone.
    Atomic<ChunkWord>* word = acknowledgement_word(memory, memory.record(local, id), p);
    ChunkWord waiting = chunk_word(seen.generation, ChunkState::kFree);
    const ChunkWord read = chunk_word(seen.generation, failed ? ChunkState::kFailed : ChunkState::kLanded);
    if (word == nullptr || !word->compare_exchange_strong(waiting, read, std::memory_order_seq_cst)) return;
    memory.ring_rank(local, wake);
    settled_some = true;

    const uint32_t index = watch_of[uint64_t{local.value} * memory.limits().records_max + id.value];
    if (index == 0 || watches[index - 1].seen.generation != seen.generation) return;
    Watch& w = watches[index - 1];
    w.resend_ticks = 0;
    if (!test_bit(due_bits(index - 1), p)) return;
    clear_bit(due_bits(index - 1), p);
    --w.due_count;
    --share_pool[w.share].due_count;
}

// Tells again what has not been acknowledged: who was told had no room for it, or knows nothing of it any
// more.
void ServiceEngine::State::retell(ServiceAddress to) {
    for (uint32_t i = 0; i < watches_used; ++i)
        if (watches[i].used && !watches[i].helps && still(watches[i])) rearm(i, &to);
}

// A peer has started anew and knows nothing.
void ServiceEngine::State::resync(ServiceAddress with) {
    retell(with);
    leave_parents(with.node);
}

}  // namespace longshore
