#include "engine/rank_engine.h"

#include <new>

#include "engine/completion.h"

namespace longshore {

// What a rank keeps to itself about a record it has published.
struct RankEngine::Watch {
    RecordLook self;
    CompletionCursor done;
    MoverCursor incoming, outgoing;
    uint32_t arrays = kNoArrays;
    uint64_t claims_offset = 0, claims_bytes = 0;
    uint64_t landing_offset = 0, landing_bytes = 0;  // in the arena; 0: none
    CompletionCursor landing_done;
    uint32_t local_index = 0;
    uint32_t there = 0;  // of the blocks before this one none is waited for (is_all_there)
    bool complete = false;
    bool sends_read = false;
    bool lands = false;
};

// The arrays of an operation with blocks of their own: its blocks, then the table of first chunks; and how
// they are cut into chunks. Used by records, and kept for further operations with the same blocks.
struct RankEngine::Arrays {
    uint64_t span = 0, span_bytes = 0;  // from the start of the node's memory
    uint64_t send_bytes = 0, recv_bytes = 0;
    uint64_t chunk_bytes = 0, chunk_count = 0;
    uint64_t own_first = 0, own_end = 0;  // chunks of the rank's own block
    uint32_t users = 0;
};

namespace {

constexpr size_t align64(size_t n) {
    return (n + 63) & ~size_t{63};
}

uint64_t half_of(uint64_t bytes) {
    return bytes / 2 & ~uint64_t{63};
}

// A landing has the layout of the receive buffer. What is too large for a landing is given directly.
uint64_t landing_bytes_of(const OperationArguments& a, uint32_t size) {
    if (rules_of(a.collective).taken == Blocks::kOne)
        return a.rank == a.root ? a.send_block_bytes : a.recv_block_bytes;
    if (a.recv_blocks == nullptr) return a.recv_block_bytes * size;
    uint64_t end = 0;
    for (uint32_t i = 0; i < size; ++i)
        if (a.recv_blocks[i].bytes != 0 && a.recv_blocks[i].offset + a.recv_blocks[i].bytes > end)
            end = a.recv_blocks[i].offset + a.recv_blocks[i].bytes;
    return end;
}

uint64_t landing_bytes_max(const NodeLimits& limits) {
    return limits.arena_bytes / 4;
}

uint64_t chunks_of(uint64_t bytes, uint64_t chunk_bytes) {
    return (bytes + chunk_bytes - 1) / chunk_bytes;
}

uint64_t incoming_bytes(const OperationArguments& a, uint32_t source, bool lands) {
    return a.self_in_place && source == a.rank.value && !lands ? 0 : a.recv_blocks[source].bytes;
}

}  // namespace

size_t RankEngine::bytes_needed(const NodeLimits& limits) {
    return align64(limits.records_max * sizeof(Watch)) + align64(2 * limits.records_max * sizeof(Arrays)) +
           align64(4 * limits.records_max * sizeof(uint32_t));
}

RankEngine::RankEngine(void* block, const NodeMemory& memory, LocalRank self, uint64_t generation)
    : memory_(memory),
      self_(self),
      mover_(memory, rank_worker(self)),
      arrays_(memory, memory.arena_begin(self), half_of(memory.limits().arena_bytes)),
      arena_(memory, memory.arena_begin(self) + half_of(memory.limits().arena_bytes),
             memory.limits().arena_bytes - half_of(memory.limits().arena_bytes)),
      claims_(memory, memory.claims_begin(self), memory.limits().claims_bytes),
      generation_(generation) {
    const uint32_t n = memory.limits().records_max;
    watches_ = static_cast<Watch*>(block);
    auto* const behind = static_cast<std::byte*>(block) + align64(n * sizeof(Watch));
    all_arrays_ = reinterpret_cast<Arrays*>(behind);
    free_records_ = reinterpret_cast<uint32_t*>(behind + align64(2 * n * sizeof(Arrays)));
    held_ = free_records_ + n;
    free_arrays_ = held_ + n;
    for (uint32_t i = 0; i < n; ++i) free_records_[i] = n - 1 - i;
    for (uint32_t i = 0; i < 2 * n; ++i) free_arrays_[i] = 2 * n - 1 - i;
    free_count_ = n;
    free_arrays_count_ = 2 * n;
}

RankEngine::Watch& RankEngine::watch(RecordId record) {
    return watches_[record.value];
}
const RankEngine::Watch& RankEngine::watch(RecordId record) const {
    return watches_[record.value];
}

// How many chunks, of which size: large operations have larger ones, so that the claim words stay bounded.
void RankEngine::cut_blocks(const OperationArguments& a, uint32_t size, bool lands, Arrays* cut) const {
    const CollectiveRules& rules = rules_of(a.collective);
    const bool takes = rules.takes(a.rank, a.root), one_block = rules.taken == Blocks::kOne;
    const bool by_blocks = takes && a.recv_blocks != nullptr;
    const bool keeps_one = one_block && a.self_in_place && a.rank == a.root;
    const uint64_t chunks_max = memory_.limits().claims_bytes / sizeof(ChunkWord) / 8;
    uint64_t per_block = 0;
    for (cut->chunk_bytes = memory_.limits().chunk_bytes;; cut->chunk_bytes *= 2) {
        if (by_blocks) {
            cut->chunk_count = 0;
            for (uint32_t s = 0; s < size; ++s)
                cut->chunk_count += chunks_of(incoming_bytes(a, s, lands), cut->chunk_bytes);
        } else {
            per_block = takes && !keeps_one ? chunks_of(a.recv_block_bytes, cut->chunk_bytes) : 0;
            cut->chunk_count = one_block ? per_block : per_block * size;
        }
        if (cut->chunk_count <= chunks_max || cut->chunk_bytes >= uint64_t{1} << 31 ||
            (by_blocks ? cut->chunk_count <= size : per_block <= 1))
            return;
    }
}

// Writes the arrays that the operation needs, if it needs any. False: there is no room.
bool RankEngine::make_arrays(const OperationArguments& a, uint32_t size, bool by_blocks, bool lands,
                             const Arrays& cut, uint32_t* out) {
    Arrays made = cut;
    made.send_bytes = a.send_blocks != nullptr ? size * sizeof(BlockSpan) : 0;
    made.recv_bytes = by_blocks ? size * sizeof(BlockSpan) : 0;
    const uint64_t first_bytes = by_blocks ? (uint64_t{size} + 1) * sizeof(uint32_t) : 0;
    made.span_bytes = made.send_bytes + made.recv_bytes + first_bytes;
    if (made.span_bytes == 0) return true;
    made.span = free_arrays_count_ == 0 ? 0 : arrays_.allocate(made.span_bytes);
    if (made.span == 0) return false;
    const auto copy_blocks = [&](uint64_t to, const BlockSpan* from) {
        for (uint32_t i = 0; i < size; ++i) {
            store_relaxed(&memory_.at<BlockSpan>(to)[i].offset, from[i].offset);
            store_relaxed(&memory_.at<BlockSpan>(to)[i].bytes, from[i].bytes);
        }
    };
    if (made.send_bytes != 0) copy_blocks(made.span, a.send_blocks);
    if (by_blocks) {
        copy_blocks(made.span + made.send_bytes, a.recv_blocks);
        auto* const first = memory_.at<uint32_t>(made.span + made.send_bytes + made.recv_bytes);
        uint32_t at = 0;
        for (uint32_t s = 0; s < size; ++s) {
            if (s == a.rank.value) made.own_first = at;
            store_relaxed(&first[s], at);
            at += static_cast<uint32_t>(chunks_of(incoming_bytes(a, s, lands), cut.chunk_bytes));
            if (s == a.rank.value) made.own_end = at;
        }
        store_relaxed(&first[size], at);
    }
    *out = free_arrays_[--free_arrays_count_];
    all_arrays_[*out] = made;
    return true;
}

uint32_t RankEngine::keep_arrays(RecordId record) {
    const uint32_t arrays = watch(record).arrays;
    if (arrays != kNoArrays) ++all_arrays_[arrays].users;
    return arrays;
}

void RankEngine::drop_arrays(uint32_t id) {
    Arrays& arrays = all_arrays_[id];
    if (--arrays.users != 0) return;
    arrays_.release(arrays.span, arrays.span_bytes);
    free_arrays_[free_arrays_count_++] = id;
}

// What post() finds out about an operation before it is written down.
struct RankEngine::Posting {
    uint32_t size = 0;
    bool several_nodes = false;
    bool by_blocks = false,
         one_block = false;  // what comes in: blocks of their own sizes; one for all; else equal ones
    bool keeps_one = false;  // in place, so that nothing comes in
    bool lands = false;
    Arrays cut;
    uint32_t arrays = kNoArrays;
    uint64_t per_block = 0;  // chunks, where blocks are equal
    // Words: of chunks, of chunks of the landing, and for those who have to acknowledge.
    uint64_t landing_count = 0, peers = 0;
    uint64_t claims = 0, claims_bytes = 0, landing = 0, landing_bytes = 0;
};

// Whether the ring has room for it.
bool RankEngine::has_place(const OperationArguments& a, const GroupEntry& group, uint32_t local_index) const {
    const uint64_t before = memory_.ring(group, local_index, a.sequence).load(std::memory_order_relaxed);
    if ((before != 0 && (before & kDone) != kDone) || free_count_ == 0) return false;
    if (group.local_count == group.size || a.sequence <= memory_.limits().operations_ahead_max) return true;
    // The place of this operation in the table of readers must not be in use by a slower rank of the node.
    RecordId ignored;
    for (uint32_t i = 0; i < group.local_count; ++i)
        if (entered(memory_, group, i, a.sequence - memory_.limits().operations_ahead_max, &ignored) !=
            Entered::kOver)
            return false;
    return true;
}

// Cuts the operation into chunks and takes the memory that it needs. False: there is no room, nothing is
// taken.
bool RankEngine::lay_out(const OperationArguments& a, const GroupEntry& group, Posting* out) {
    Posting& p = *out;
    const CollectiveRules& rules = rules_of(a.collective);
    p.size = group.size;
    p.several_nodes = group.local_count != p.size;
    p.one_block = rules.taken == Blocks::kOne;
    p.by_blocks = rules.takes(a.rank, a.root) && a.recv_blocks != nullptr;
    p.keeps_one = p.one_block && a.self_in_place && a.rank == a.root;

    // A shared block lands here for the whole node, a rank's own one too.
    p.lands = rules.is_shared && a.algorithm == Algorithm::kStagedHierarchical && group.local_count > 1;
    p.landing_bytes = p.lands ? landing_bytes_of(a, p.size) : 0;
    if (p.landing_bytes != 0 && p.landing_bytes <= landing_bytes_max(memory_.limits()))
        p.landing = arena_.allocate(p.landing_bytes);
    if (a.arrays != kNoArrays)
        p.cut = all_arrays_[a.arrays];
    else
        cut_blocks(a, p.size, p.lands, &p.cut);
    const uint64_t chunk_count = p.cut.chunk_count;
    p.per_block = p.by_blocks || p.size == 0 ? 0 : p.one_block ? chunk_count : chunk_count / p.size;

    if (p.several_nodes && rules.gives(a.rank, a.root)) p.peers = group.peer_count;
    if (p.landing != 0)
        p.landing_count = p.keeps_one ? chunks_of(a.send_block_bytes, p.cut.chunk_bytes) : chunk_count;
    p.claims_bytes = (chunk_count + p.landing_count + p.peers) * sizeof(ChunkWord);
    p.claims = p.claims_bytes != 0 ? claims_.allocate(p.claims_bytes) : 0;
    p.arrays = a.arrays;
    const bool has_arrays =
        a.arrays != kNoArrays || make_arrays(a, p.size, p.by_blocks, p.lands, p.cut, &p.arrays);
    if (!has_arrays || (p.claims_bytes != 0 && p.claims == 0)) {
        if (has_arrays && a.arrays == kNoArrays && p.arrays != kNoArrays) {
            all_arrays_[p.arrays].users = 1;
            drop_arrays(p.arrays);
        }
        if (p.claims != 0) claims_.release(p.claims, p.claims_bytes);
        if (p.landing != 0) arena_.release(p.landing, p.landing_bytes);
        return false;
    }
    if (p.arrays != kNoArrays) {
        ++all_arrays_[p.arrays].users;
        p.cut = all_arrays_[p.arrays];
    }
    return true;
}

void RankEngine::write_words(const OperationArguments& a, const Posting& p, uint64_t generation) {
    const uint64_t chunk_count = p.cut.chunk_count;
    Atomic<ChunkWord>* words = memory_.at<Atomic<ChunkWord>>(p.claims);
    for (uint64_t i = 0; i < chunk_count; ++i) {
        const bool in_place = a.self_in_place && (p.by_blocks    ? i >= p.cut.own_first && i < p.cut.own_end
                                                  : !p.one_block ? i / p.per_block == a.rank.value
                                                                 : false);
        words[i].store(chunk_word(generation, in_place ? ChunkState::kLanded : ChunkState::kFree),
                       std::memory_order_relaxed);
    }
    for (uint64_t i = 0; i < p.landing_count; ++i)
        words[chunk_count + i].store(chunk_word(generation, ChunkState::kFree), std::memory_order_relaxed);
}

// Who has nothing to read is as good as having read it. The record has been written, but not published.
void RankEngine::write_peers(const OperationArguments& a, const Posting& p, const OperationRecord& r,
                             uint64_t generation) {
    if (p.peers == 0) return;
    const GroupEntry& group = memory_.group(a.group);
    const Geometry geometry(memory_, r, self_);
    const bool shared = is_shared(a.collective);
    const auto peers = memory_.peers(group);
    Atomic<ChunkWord>* words = memory_.at<Atomic<ChunkWord>>(p.claims) + p.cut.chunk_count + p.landing_count;
    for (size_t i = 0; i < peers.size(); ++i) {
        bool reads = false;
        if (peers[i].at.node != memory_.node() && (!shared || peers[i].node_first == i))
            for (const uint32_t rank : memory_.members_of(group, peers[i])) {
                reads = geometry.outgoing(Rank{rank}).bytes != 0;
                if (reads) break;
            }
        words[i].store(chunk_word(generation, reads ? ChunkState::kFree : ChunkState::kLanded),
                       std::memory_order_relaxed);
    }
}

void RankEngine::write_record(const OperationArguments& a, const Posting& p, uint64_t generation,
                              OperationRecord& r) {
    const uint64_t chunk_count = p.cut.chunk_count;
    const uint64_t recv_blocks = p.cut.span + p.cut.send_bytes, first = recv_blocks + p.cut.recv_bytes;
    r.claims_offset.store(p.claims, std::memory_order_relaxed);
    r.chunk_count.store(static_cast<uint32_t>(chunk_count), std::memory_order_relaxed);
    r.landing_count.store(static_cast<uint32_t>(p.landing_count), std::memory_order_relaxed);
    store_relaxed(&r.landing_offset, p.landing != 0 ? p.landing - memory_.arena_begin(self_) : 0);
    store_relaxed(&r.copies_itself, static_cast<uint8_t>(a.copies_itself && p.lands));
    r.chunks_per_block.store(p.by_blocks   ? 0
                             : p.one_block ? kOneBlock | static_cast<uint32_t>(chunk_count)
                                           : static_cast<uint32_t>(p.per_block),
                             std::memory_order_relaxed);
    r.chunk_first_offset.store(p.by_blocks ? first : 0, std::memory_order_relaxed);
    r.chunk_bytes.store(static_cast<uint32_t>(p.cut.chunk_bytes), std::memory_order_relaxed);
    // What an earlier use left here may be of the same generation, when those have begun again.
    r.completed.store(0, std::memory_order_relaxed);
    r.error.store(error_word(generation, OperationError::kNone), std::memory_order_relaxed);
    store_relaxed(&r.sequence, a.sequence);
    store_relaxed(&r.group_slot, a.group.value);
    store_relaxed(&r.rank, a.rank.value);
    store_relaxed(&r.size, p.size);
    store_relaxed(&r.root, a.root.value);
    store_relaxed(reinterpret_cast<uint8_t*>(&r.collective), static_cast<uint8_t>(a.collective));
    store_relaxed(reinterpret_cast<uint8_t*>(&r.algorithm), static_cast<uint8_t>(a.algorithm));
    store_relaxed(&r.self_in_place, static_cast<uint8_t>(a.self_in_place));
    store_relaxed(&r.send_is_stable, static_cast<uint8_t>(a.send_is_stable));
    store_relaxed(&r.hands_over,
                  static_cast<uint8_t>(a.hands_over && is_shared(a.collective) && p.landing == 0));
    store_relaxed(&r.local, self_.value);
    store_relaxed(&r.send_region, a.send.region.value);
    store_relaxed(&r.recv_region, a.recv.region.value);
    store_relaxed(&r.send_offset, a.send.offset);
    store_relaxed(&r.recv_offset, a.recv.offset);
    store_relaxed(&r.send_block_bytes, a.send_block_bytes);
    store_relaxed(&r.recv_block_bytes, a.recv_block_bytes);
    store_relaxed(&r.send_blocks_offset, p.cut.send_bytes != 0 ? p.cut.span : 0);
    store_relaxed(&r.recv_blocks_offset, p.by_blocks ? recv_blocks : 0);
    store_relaxed(&r.acknowledged_offset,
                  p.peers != 0 ? p.claims + (chunk_count + p.landing_count) * sizeof(ChunkWord) : 0);
}

PostResult RankEngine::post(const OperationArguments& a, bool ring_services, RecordId* out, WakeSet* wake) {
    const GroupEntry& group = memory_.group(a.group);
    const Member* members = memory_.members(group);
    const Member& me = members[a.rank.value];
    LONGSHORE_CHECK(a.rank.value < group.size && me.node == memory_.node() && me.local == self_ &&
                    a.sequence > 0);
    Posting p;
    if (!has_place(a, group, me.local_index) || !lay_out(a, group, &p)) return PostResult::kLater;

    const RecordId id{free_records_[--free_count_]};
    Watch& w = *new (&watches_[id.value]) Watch;
    w.arrays = p.arrays;
    w.claims_offset = p.claims;
    w.claims_bytes = p.claims_bytes;
    w.landing_offset = p.landing;
    w.landing_bytes = p.landing_bytes;
    w.local_index = me.local_index;
    w.lands = p.landing != 0;

    const uint64_t generation = generation_ = generation_after(generation_);
    w.self = {generation, a.sequence, a.group, a.rank, p.size, a.root, a.collective, a.algorithm};
    OperationRecord& r = memory_.record(self_, id);
    write_words(a, p, generation);
    write_record(a, p, generation, r);
    write_peers(a, p, r, generation);
    r.generation.store(generation, std::memory_order_release);
    set_active(id, true);
    // Published: sequentially consistent, so that a peer that falls asleep now either sees it or is rung.
    memory_.ring(group, me.local_index, a.sequence)
        .exchange(ring_entry(a.sequence, id.value + 1), std::memory_order_seq_cst);

    const uint32_t* locals = memory_.locals(group);
    uint32_t services = 0;
    for (uint32_t i = 0; i < group.local_count; ++i) {
        const Member& peer = members[locals[i]];
        if (i != me.local_index) memory_.ring_rank(peer.local, wake);
        services |= 1u << peer.service.value;
    }
    // Where the caller waits itself, service processes need not be woken for what stays on the node.
    memory_.ring_services(services, ring_services || p.several_nodes ? wake : nullptr);
    *out = id;
    return PostResult::kPosted;
}

// Nobody else writes there.
void RankEngine::set_active(RecordId id, bool active) {
    Atomic<uint64_t>& word = memory_.rank(self_).active[id.value / 64];
    const uint64_t bit = uint64_t{1} << (id.value % 64), before = word.load(std::memory_order_relaxed);
    word.store(active ? before | bit : before & ~bit, std::memory_order_release);
}

bool RankEngine::claim(RecordId record, Copy* out) {
    Watch& w = watch(record);
    w.incoming.idle_steps = 0;
    w.outgoing.idle_steps = 0;
    uint32_t any = 0;
    if (mover_.claim_incoming(self_, record, &w.incoming, UINT32_MAX, out)) return true;
    // This rank is not waiting for stable blocks to be read, and who takes them reads them faster than this
    // rank could write them there.
    if (!load_relaxed(&memory_.record(self_, record).send_is_stable) &&
        mover_.claim_outgoing(self_, record, &w.outgoing, UINT32_MAX, out))
        return true;
    return w.lands && mover_.claim_landing(self_, record, &any, out);
}

bool RankEngine::claim_for_rank(RecordId record, Copy* out) {
    Watch& w = watch(record);
    w.incoming.idle_steps = 0;
    return load_relaxed(&memory_.record(self_, record).hands_over) != 0 &&
           mover_.claim_incoming(self_, record, &w.incoming, UINT32_MAX, out);
}

void RankEngine::leave_to_services(RecordId record, bool leave, WakeSet* wake) {
    const Watch& w = watch(record);
    const bool hands_over = !leave && is_shared(w.self.collective) && !w.lands;
    store_relaxed(&memory_.record(self_, record).hands_over, static_cast<uint8_t>(hands_over));
    if (leave) memory_.ring_all_services(wake);
}

// What is there stays there until it is copied.
bool RankEngine::is_all_there(RecordId id) {
    Watch& w = watch(id);
    const OperationRecord& record = memory_.record(self_, id);
    const GroupEntry& group = memory_.group(w.self.group);
    for (; w.there < w.self.size; ++w.there) {
        const Rank source{w.there};
        const ChunkRange chunks = incoming_chunks(memory_, record, source);
        if (range_settled(chunks, w.self.generation, std::memory_order_acquire)) continue;
        LocalRank giver;
        RecordId given;
        if (!find_giver(memory_, group, w.self.sequence, source, &giver, &given) ||
            (giver == self_ && source != w.self.rank))
            return false;
    }
    return true;
}

Progress RankEngine::poll(RecordId record) {
    Watch& w = watch(record);
    if (w.complete) return Progress::kComplete;
    if (memory_.record(self_, record).completed.load(std::memory_order_acquire) == w.self.generation) {
        w.complete = w.sends_read = true;
        return Progress::kComplete;
    }
    const Completion completion(memory_, self_, record, w.self);
    if (!completion.receives_landed(&w.done)) return Progress::kPending;
    if (!load_relaxed(&memory_.record(self_, record).send_is_stable) && !sends_read(record))
        return Progress::kPending;
    if (!completion.readers_done(&w.done)) return Progress::kPending;
    w.complete = true;
    return Progress::kComplete;
}

bool RankEngine::sends_read(RecordId record) {
    Watch& w = watch(record);
    w.sends_read = w.sends_read || Completion(memory_, self_, record, w.self).sends_read(&w.done);
    return w.sends_read;
}

bool RankEngine::is_free(RecordId record) {
    Watch& w = watch(record);
    return sends_read(record) && Completion(memory_, self_, record, w.self).landing_free(&w.landing_done) &&
           close_landing(record);
}

// Where blocks have failed all ranks of the node can be done while a service process still lands one. Nothing
// lands from now on. False: a chunk is being landed.
bool RankEngine::close_landing(RecordId id) {
    const OperationRecord& record = memory_.record(self_, id);
    return !fail_rest(id, record.chunk_count.load(std::memory_order_relaxed),
                      record.landing_count.load(std::memory_order_relaxed))
                .some_claimed;
}

// Of these chunks those that nobody has claimed.
RankEngine::Rest RankEngine::fail_rest(RecordId id, uint32_t first, uint32_t count) {
    const uint64_t generation = watch(id).self.generation;
    Atomic<ChunkWord>* const words = memory_.at<Atomic<ChunkWord>>(watch(id).claims_offset) + first;
    Rest rest;
    for (uint32_t i = 0; i < count; ++i) {
        if (chunk_settled(words[i].load(std::memory_order_acquire))) continue;
        const bool mine = claim_chunk(words[i], generation, rank_worker(self_));
        if (mine) settle_chunk(words[i], generation, ChunkState::kFailed);
        (mine ? rest.some_failed : rest.some_claimed) = true;
    }
    return rest;
}

void RankEngine::give_up(RecordId id, WakeSet* wake) {
    OperationRecord& record = memory_.record(self_, id);
    note_error(record, watch(id).self.generation, OperationError::kServiceLost);
    const Rest rest = fail_rest(id, 0,
                                record.chunk_count.load(std::memory_order_relaxed) +
                                    record.landing_count.load(std::memory_order_relaxed));
    if (!rest.some_failed) return;
    for (uint16_t r = 0; r < memory_.rank_count(); ++r)
        if (LocalRank{r} != self_) memory_.ring_rank(LocalRank{r}, wake);
    memory_.ring_all_services(wake);
}

OperationError RankEngine::error(RecordId record) const {
    return error_in(memory_.record(self_, record).error.load(std::memory_order_relaxed));
}

void RankEngine::release(RecordId record, WakeSet* wake) {
    LONGSHORE_CHECK(watch(record).complete);
    // Stable blocks are mostly still being read now; looking would only fetch their words from the readers.
    if ((watch(record).sends_read || !load_relaxed(&memory_.record(self_, record).send_is_stable)) &&
        is_free(record)) {
        retire(record, wake);
    } else {
        held_[held_count_++] = record.value;
    }
}

uint32_t RankEngine::reap(WakeSet* wake) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < held_count_; ++i) {
        const RecordId id{held_[i]};
        if (is_free(id)) {
            retire(id, wake);
        } else {
            held_[kept++] = id.value;
        }
    }
    held_count_ = kept;
    return kept;
}

bool RankEngine::holds(GroupSlot group) const {
    for (uint32_t i = 0; i < held_count_; ++i)
        if (watch(RecordId{held_[i]}).self.group.value == group.value) return true;
    return false;
}

void RankEngine::retire(RecordId id, WakeSet* wake) {
    Watch& w = watch(id);
    OperationRecord& r = memory_.record(self_, id);
    const GroupEntry& group = memory_.group(w.self.group);
    memory_.ring(group, w.local_index, w.self.sequence)
        .store(ring_entry(w.self.sequence, kDone), std::memory_order_release);
    set_active(id, false);
    r.generation.store(0, std::memory_order_seq_cst);
    // Blocks may have been told for it that no service process has had time to begin.
    if (error_in(r.error.load(std::memory_order_relaxed)) == OperationError::kServiceLost)
        memory_.ring_all_services(wake);
    // Nothing that is written now, into the record or what it pointed to, may be seen with its generation.
    __atomic_thread_fence(__ATOMIC_RELEASE);
    // A slower start of theirs may wait until this rank is past the operation.
    if (group.readers_offset != 0)
        for (uint32_t i = 0; i < group.local_count; ++i)
            if (i != w.local_index)
                memory_.ring_rank(memory_.members(group)[memory_.locals(group)[i]].local, wake);
    if (w.arrays != kNoArrays) drop_arrays(w.arrays);
    if (w.claims_offset != 0) claims_.release(w.claims_offset, w.claims_bytes);
    if (w.landing_offset != 0) arena_.release(w.landing_offset, w.landing_bytes);
    free_records_[free_count_++] = id.value;
}

bool RankEngine::others_hold_claims(RecordId record) const {
    const Watch& w = watch(record);
    const OperationRecord& r = memory_.record(self_, record);
    const Atomic<ChunkWord>* words = memory_.at<Atomic<ChunkWord>>(w.claims_offset);
    const uint32_t count = r.chunk_count.load(std::memory_order_relaxed);
    for (uint32_t i = w.done.settled; i < count; ++i) {
        const ChunkWord word = words[i].load(std::memory_order_relaxed);
        if (chunk_state(word) == ChunkState::kClaimed && !(chunk_worker(word) == rank_worker(self_)))
            return true;
    }
    return false;
}

bool RankEngine::awaited_rank(RecordId record, Rank* out) const {
    const OperationRecord& r = memory_.record(self_, record);
    for (Rank source{0}; source.value < r.size; ++source.value) {
        uint32_t settled = 0;
        if (block_settled(incoming_chunks(memory_, r, source), watch(record).self.generation, &settled))
            continue;
        *out = source;
        return true;
    }
    return false;
}

bool RankEngine::missing_rank(RecordId record, Rank* out) const {
    const OperationRecord& r = memory_.record(self_, record);
    const GroupEntry& group = memory_.group(GroupSlot{r.group_slot});
    for (uint32_t i = 0; i < group.local_count; ++i) {
        RecordId ignored;
        if (entered(memory_, group, i, r.sequence, &ignored) != Entered::kNotYet) continue;
        *out = Rank{memory_.locals(group)[i]};
        return true;
    }
    return false;
}

}  // namespace longshore
