#include "simulator/rank_actor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "simulator/pattern.h"
#include "simulator/text.h"

namespace longshore::sim {
namespace {

// The fill of arenas' spans whose operation has retired.
constexpr uint64_t kRetiredKey = 99;
constexpr uint64_t kSafetyTimerNs = 20000000;

uint64_t timer_ns(const WorldOptions& o) {
    return o.limit_ns != 0 ? o.limit_ns / 4 : kSafetyTimerNs;
}

// In which order a rank enters the operations: all in one, or only those of each group.
std::vector<uint32_t> order_of(const World& world, uint32_t rank) {
    const std::vector<Operation>& operations = world.program.operations;
    std::vector<uint32_t> order(operations.size());
    std::iota(order.begin(), order.end(), 0u);
    if (!world.options.any_order) return order;
    Prng r(mix64(world.options.seed * 4096 + rank));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[r.below(i)]);
    // Where operations of a group stand now they stand in their own order.
    for (uint32_t g = 0; g < world.program.groups.size(); ++g) {
        std::vector<size_t> at;
        std::vector<uint32_t> of_group;
        for (size_t i = 0; i < order.size(); ++i) {
            if (operations[order[i]].group != g) continue;
            at.push_back(i);
            of_group.push_back(order[i]);
        }
        std::sort(of_group.begin(), of_group.end());
        for (size_t i = 0; i < at.size(); ++i) order[at[i]] = of_group[i];
    }
    return order;
}

}  // namespace

RankActor::RankActor(World& world, uint32_t index, std::byte* engine_block)
    : world_(world),
      index_(index),
      place_(world.program.places[index]),
      memory_(world.memory.node(place_.node.value)),
      cooperative_(world.options.cooperative) {
    RankSlot& slot = memory_.rank(place_.local);
    slot.attached.store(1);
    slot.service = place_.service.value;
    world_.memory.write_descriptor(place_.node, place_.local, kArenaRegion, descriptor_bytes());
    slot.events.store(world.options.last_count());
    engine_ = std::make_unique<RankEngine>(engine_block, memory_, place_.local,
                                           world.options.last_of(kGenerationMax));
    if (!world.options.regions_per_buffer) {
        renew_heap();
        Region& r = world_.memory.region(place_.node, place_.local, heap_);
        r.unreadable = world_.scheduler.random.chance(world.options.unreadable);
        r.rank_only = world_.scheduler.random.chance(world.options.not_permitted);
    }
    plan();
    again(world.options.late_ns);
}

uint32_t RankActor::descriptor_bytes() const {
    return world_.options.wide_descriptors ? 300 : 24;
}

// All of its memory in one region.
void RankActor::renew_heap() {
    LONGSHORE_CHECK(world_.memory.add_region(place_.node, place_.local, 0, world_.memory.pool_bytes(),
                                             descriptor_bytes(), &heap_));
}

void RankActor::plan() {
    const WorldOptions& o = world_.options;
    Prng r(mix64(o.seed * 1000 + index_));
    const bool very_late = o.very_late_ns != 0 && r.chance(150);
    std::vector<uint32_t> open;
    for (const uint32_t index : order_of(world_, index_)) {
        const Operation& op = world_.program.operations[index];
        const int32_t rank = world_.program.groups[op.group].index_of[index_];
        if (rank < 0) continue;
        Use u;
        u.operation = &op;
        u.rank = static_cast<uint32_t>(rank);
        u.stable = r.chance(o.stable);
        const uint32_t use = static_cast<uint32_t>(uses_.size());
        uses_.push_back(u);
        uint64_t delay = o.late_ns == 0 ? 0 : r.below(2 * o.late_ns);
        if (very_late && r.chance(500)) delay += r.below(2 * o.very_late_ns);
        steps_.push_back({false, use, delay});
        if (op.blocking) {
            steps_.push_back({true, use, 0});
            continue;
        }
        open.push_back(use);
        while (!open.empty() && r.chance(o.wait_early)) {
            const size_t i = r.below(open.size());
            steps_.push_back({true, open[i], r.below(2 * o.late_ns + 1)});
            open.erase(open.begin() + static_cast<ptrdiff_t>(i));
        }
    }
    while (!open.empty()) {
        const size_t i = r.below(open.size());
        steps_.push_back({true, open[i], r.below(2 * o.late_ns + 1)});
        open.erase(open.begin() + static_cast<ptrdiff_t>(i));
    }
}

void RankActor::again(uint64_t mean_ns) {
    world_.scheduler.post(world_.scheduler.around(mean_ns), EventKind::kRank, index_, sleep_number_);
}

void RankActor::ring(const WakeSet& wake) {
    world_.ring(place_.node, wake);
}

void RankActor::step() {
    switch (state_) {
        case State::kRun: {
            if (next_step_ == steps_.size()) {
                state_ = State::kReap;
                return again(0);
            }
            const Step& s = steps_[next_step_];
            if (!delayed_ && s.delay_ns != 0) {
                delayed_ = true;
                world_.scheduler.post(s.delay_ns, EventKind::kRank, index_, sleep_number_);
                return;
            }
            delayed_ = false;
            if (s.wait) {
                idle_since_ns_ = world_.scheduler.now_ns();
                state_ = State::kLook;
                return look();
            }
            return enter(uses_[s.use]);
        }
        case State::kLater:
            progress();
            enter(uses_[steps_[next_step_].use]);
            return;
        case State::kLook:
            return look();
        case State::kMove:
            return move();
        case State::kFallAsleep: {
            RankSlot& slot = memory_.rank(place_.local);
            if (slot.events.load() != seen_events_) {
                slot.sleeping.store(0);
                state_ = State::kLook;
                return look();
            }
            state_ = State::kAsleep;
            ++sleep_number_;
            // Only where something may have been lost is there a timer.
            if (!world_.options.lossless())
                world_.scheduler.post(timer_ns(world_.options), EventKind::kRank, index_, sleep_number_);
            return;
        }
        case State::kAsleep:  // the timer
            return woken();
        case State::kReap:
            return reap();
        case State::kDone:
        case State::kGone:
            return;
    }
}

void RankActor::die() {
    if (!done()) ++world_.ranks_done;
    state_ = State::kGone;
    ++sleep_number_;
}

void RankActor::woken() {
    wake_under_way_ = false;
    if (state_ != State::kAsleep) return;
    ++sleep_number_;
    memory_.rank(place_.local).sleeping.store(0);
    state_ = State::kLook;
    again(world_.options.step_ns);
}

bool RankActor::add_regions(Use& u) {
    const WorldOptions& o = world_.options;
    const auto reference = [&](const Buffer& b, RegionId* id, bool* own, MemoryRef* out) {
        if (!o.regions_per_buffer) {
            *out = {place_.local, heap_, b.at};
            return true;
        }
        if (!*own &&
            !world_.memory.add_region(place_.node, place_.local, b.at, b.bytes, descriptor_bytes(), id))
            return false;
        if (!*own) {
            Region& r = world_.memory.region(place_.node, place_.local, *id);
            r.unreadable = world_.scheduler.random.chance(o.unreadable);
            r.rank_only = world_.scheduler.random.chance(o.not_permitted);
        }
        *own = true;
        *out = {place_.local, *id, 0};
        return true;
    };
    if (!reference(u.recv, &u.recv_region, &u.own_recv_region, &u.recv_ref)) return false;
    if (u.arena_bytes != 0) {
        u.send_ref = {place_.local, kArenaRegion, u.arena_at - memory_.arena_begin(place_.local)};
        return true;
    }
    if (u.operation->own_in_recv(u.rank)) {
        u.send_ref = u.recv_ref;
        u.send_ref.offset += u.recv_blocks[u.rank].offset;
        return true;
    }
    return reference(u.send, &u.send_region, &u.own_send_region, &u.send_ref);
}

// Buffers are made and filled when the rank enters. In place, personalised blocks are copied elsewhere first.
void RankActor::prepare(Use& u) {
    if (u.prepared) return;
    const Operation& op = *u.operation;
    const uint64_t recv_bytes = op.layout(u.rank, true, &u.recv_blocks);
    const uint64_t send_bytes = op.layout(u.rank, false, &u.send_blocks);
    u.recv = world_.memory.allocate(recv_bytes);
    u.recv_key = op.fill_key(u.rank);
    poison(u.recv, u.recv_key);
    if (op.in_place) world_.coverage.in_place = 1;
    if (op.own_in_send(u.rank) || (op.own_in_recv(u.rank) && !op.sends_same()))
        world_.coverage.root_in_place = 1;
    u.send_key = op.send_key(u.rank);
    if (op.own_in_recv(u.rank)) {
        u.stable = false;
        const BlockSpan& own = u.recv_blocks[u.rank];
        fill_pattern(world_.memory.pool(u.recv.at + own.offset), u.send_key, 0, own.bytes);
    } else {
        u.send = world_.memory.allocate(send_bytes);
        poison(u.send, op.fill_key(u.rank) ^ 5);
        fill_pattern(world_.memory.pool(u.send.at), u.send_key, 0, send_bytes);
        // As the host library does: what would take much of the arena stays where it is.
        if (u.stable && send_bytes != 0 && send_bytes <= world_.options.arena_bytes / 8) {
            u.arena_at = engine_->arena().allocate(send_bytes);
            if (u.arena_at != 0) {
                u.arena_bytes = send_bytes;
                memcpy(memory_.at<std::byte>(u.arena_at), world_.memory.pool(u.send.at), send_bytes);
                // The caller's buffer is free at once.
                u.send_key = u.send_key ^ 0x5a5a;
                poison(u.send, u.send_key);
                world_.memory.set_closed(u.send);
            }
        }
        if (u.arena_bytes == 0) u.stable = false;
    }
    std::vector<uint32_t>& offsets = world_.send_offsets[op.index][u.rank];
    if (op.sends_one()) {
        offsets = {static_cast<uint32_t>(u.send_blocks[0].offset)};
    } else {
        offsets.reserve(op.size);
        for (const BlockSpan& b : u.send_blocks) offsets.push_back(static_cast<uint32_t>(b.offset));
    }
    u.prepared = true;
}

void RankActor::poison(const Buffer& b, uint64_t key) {
    fill_pattern(world_.memory.pool(b.at - kRedZoneBytes), key, 0,
                 ((b.bytes + 63) & ~uint64_t{63}) + 2 * kRedZoneBytes);
}

// Its regions are there, and the engine has it, or neither has room now.
PostResult RankActor::post(Use& u, WakeSet* wake) {
    prepare(u);
    if (!add_regions(u)) return PostResult::kLater;
    const Operation& op = *u.operation;
    OperationArguments a;
    a.group = GroupSlot{op.group};
    a.rank = Rank{u.rank};
    a.sequence = op.sequence;
    a.collective = op.collective;
    a.algorithm = op.algorithm;
    a.copies_itself = cooperative_;
    a.hands_over = u.hands_over;
    a.root = Rank{op.root};
    a.self_in_place = op.own_in_recv(u.rank) || op.own_in_send(u.rank);
    a.send_is_stable = u.stable;
    a.send = u.send_ref;
    a.recv = u.recv_ref;
    if (op.by_blocks(false)) {
        a.send_blocks = u.send_blocks.data();
    } else {
        a.send_block_bytes = u.send_blocks[op.sends_one() ? 0 : u.rank].bytes;
    }
    if (op.by_blocks(true)) {
        a.recv_blocks = u.recv_blocks.data();
    } else {
        a.recv_block_bytes = u.recv_blocks[op.receives_one() ? op.root : u.rank].bytes;
    }
    const PostResult posted = engine_->post(a, !op.blocking || !cooperative_, &u.record, wake);
    if (posted != PostResult::kPosted) return posted;
    std::vector<BlockSpan>().swap(u.send_blocks);
    std::vector<BlockSpan>().swap(u.recv_blocks);
    u.posted = true;
    if (world_.options.is_wrapped(memory_.record(place_.local, u.record).generation.load(), kGenerationMax))
        world_.coverage.wrapped_generations = 1;
    if (!u.waits) ++open_;
    ++world_.entered[op.index];
    if (world_.verbose())
        world_.log(name_of_rank(index_) + " enters operation " + std::to_string(op.index) + " record " +
                   std::to_string(u.record.value));
    return posted;
}

void RankActor::enter(Use& u) {
    WakeSet wake;
    if (waits_in(u.operation->group) || post(u, &wake) == PostResult::kLater) {
        world_.coverage.pool_full = 1;
        // As in the host library. In worlds in which nobody gives up a rank that waits at once tells as much.
        if (world_.options.limit_ns != 0) {
            prepare(u);
            u.waits = true;
            ++open_;
            return pass();
        }
        state_ = State::kLater;
        ++later_count_;
        // What it waits for may have nobody else to move it.
        if (cooperative_ && claim_any()) {
            before_ = State::kLater;
            state_ = State::kMove;
            half_ = 0;
            return again(world_.options.move_ns);
        }
        return again(world_.options.step_ns * 10 + std::min<uint64_t>(later_count_, 100) * 1000);
    }
    later_count_ = 0;
    ring(wake);
    ++next_step_;
    state_ = State::kRun;
    again(world_.options.step_ns);
}

// Everything that is complete is let go, in whatever order the program waits for it.
void RankActor::progress() {
    WakeSet wake;
    engine_->reap(&wake);
    let_go_of_given_up(&wake);
    post_waiting();
    for (Use& u : uses_)
        if (u.posted && !u.complete && engine_->poll(u.record) == Progress::kComplete) complete(u);
    ring(wake);
}

// What it has given up is let go, too, once nobody comes to it any more.
void RankActor::let_go_of_given_up(WakeSet* wake) {
    for (Use& u : uses_) {
        if (!u.given_up || engine_->poll(u.record) != Progress::kComplete) continue;
        u.given_up = false;
        engine_->release(u.record, wake);
    }
    look_for_retired();
}

// Looks at the operation it waits for: complete, something to do, or sleep.
void RankActor::look() {
    LONGSHORE_CHECK(state_ == State::kLook);
    Use& u = uses_[steps_[next_step_].use];
    RankSlot& slot = memory_.rank(place_.local);
    seen_events_ = slot.events.load();
    if (waits()) progress();
    if (!u.complete && !u.waits && engine_->poll(u.record) == Progress::kComplete) complete(u);
    if (u.complete) return pass();
    if (cooperative_) {
        if (!waiting_) engine_->begin_wait();
        waiting_ = true;
        bool claimed = !u.waits && engine_->claim(u.record, &copy_);
        if (!u.waits && !world_.coverage.contended) watch_contention(u);
        if (!claimed && open_ > 1) claimed = claim_any();
        if (claimed) {
            before_ = State::kLook;
            state_ = State::kMove;
            half_ = 0;
            return again(world_.options.move_ns);
        }
    }
    if (may_give_up(u)) {
        give_up(u);
        return pass();
    }
    slot.sleeping.store(1);
    state_ = State::kFallAsleep;
    again(world_.options.step_ns);
}

// The operation that it waited for is over.
void RankActor::pass() {
    if (waiting_) engine_->end_wait();
    waiting_ = false;
    ++next_step_;
    state_ = State::kRun;
    again(world_.options.step_ns);
}

bool RankActor::spans_nodes(const Operation& op) const {
    for (const uint32_t r : world_.program.groups[op.group].members)
        if (world_.program.places[r].node != place_.node) return true;
    return false;
}

// As a rank of several nodes does when it has looked in vain (host/node_operations.cc).
bool RankActor::may_give_up(Use& u) {
    const uint64_t limit_ns = world_.options.limit_ns, now_ns = world_.scheduler.now_ns();
    if (limit_ns == 0 || !spans_nodes(*u.operation)) return false;
    const bool failed = !u.waits && engine_->error(u.record) == OperationError::kServiceLost;
    const uint64_t gone_since_ns = world_.gone_since_ns(place_.node);
    // Twice the limit, and the time until it looks.
    if (gone_since_ns != 0 && now_ns > std::max(gone_since_ns, idle_since_ns_) + 3 * limit_ns)
        world_.fail("limit", name_of_rank(index_) + " waits for too long for operation " +
                                 std::to_string(u.operation->index));
    if (!u.giving_up.is_due(failed, gone_since_ns, now_ns, limit_ns)) return false;
    if (u.waits) return true;
    withdraw(u);
    WakeSet wake;
    engine_->give_up(u.record, &wake);
    ring(wake);
    return u.giving_up.may_end(engine_->others_hold_claims(u.record), now_ns, limit_ns);
}

bool RankActor::waits() const {
    return std::any_of(uses_.begin(), uses_.end(), [](const Use& u) { return u.waits; });
}

bool RankActor::waits_in(uint32_t group) const {
    return std::any_of(uses_.begin(), uses_.end(),
                       [group](const Use& u) { return u.waits && u.operation->group == group; });
}

void RankActor::post_waiting() {
    WakeSet wake;
    uint64_t full_groups = 0;
    for (Use& u : uses_) {
        const uint64_t group = uint64_t{1} << (u.operation->group % 64);
        if (!u.waits || (full_groups & group) != 0) continue;
        if (post(u, &wake) == PostResult::kPosted)
            u.waits = false;
        else
            full_groups |= group;
    }
    ring(wake);
}

void RankActor::withdraw(const Use& u) {
    has_withdrawn_ = true;
    for (const MemoryRef& ref : {u.send_ref, u.recv_ref}) {
        world_.memory.withdraw_region(place_.node, place_.local, ref.region);
        if (ref.region == heap_) renew_heap();
    }
}

// Its record stays, and others may still come to it. Its program writes into its buffers at once.
void RankActor::give_up(Use& u) {
    if (world_.verbose())
        world_.log(name_of_rank(index_) + " gives up operation " + std::to_string(u.operation->index));
    world_.coverage.given_up = 1;
    world_.coverage.given_up_early |= u.waits;
    u.given_up = !u.waits;
    end(u, OperationError::kServiceLost);
    // It is never entered.
    if (u.waits) retire(u);
    u.waits = false;
}

// A rank may work on all that it has open.
bool RankActor::claim_any() {
    for (Use& u : uses_)
        if (u.posted && !u.complete && engine_->claim(u.record, &copy_)) return true;
    return false;
}

// A service process holds a chunk of this operation that the rank has just tried to take.
void RankActor::watch_contention(const Use& u) {
    const OperationRecord& record = memory_.record(place_.local, u.record);
    for (uint32_t s = 0; s < u.operation->size; ++s) {
        const ChunkRange chunks = incoming_chunks(memory_, record, Rank{s});
        for (uint32_t i = 0; i < chunks.count; ++i) {
            const ChunkWord word = chunks.words[i].load();
            if (chunk_state(word) == ChunkState::kClaimed && !is_rank(chunk_worker(word))) {
                world_.coverage.contended = 1;
                return;
            }
        }
    }
}

MoveResult RankActor::transfer(uint64_t begin, uint64_t end) {
    if (end == begin) return MoveResult::kMoved;
    // As in the fabric: what has begun goes on although a region has been withdrawn.
    const bool withdrawn = world_.memory.is_withdrawn(place_.node, copy_.from) ||
                           world_.memory.is_withdrawn(place_.node, copy_.to);
    if (withdrawn && begin == 0) return MoveResult::kFailed;
    if (withdrawn && world_.memory.is_closed(to_))
        world_.fail("access", name_of_rank(index_) + " writes into a buffer that its rank has given up");
    if (!withdrawn && !find_ends()) return MoveResult::kFailed;
    memmove(to_ + begin, from_ + begin, end - begin);
    return end == copy_.bytes && from_use_.is_over() ? MoveResult::kFailed : MoveResult::kMoved;
}

bool RankActor::find_ends() {
    std::string wrong;
    const auto at = [&](const MemoryRef& ref) -> std::byte* {
        if (ref.region.value < world_.options.regions && ref.region != kArenaRegion &&
            world_.memory.region(place_.node, ref.rank, ref.region).unreadable)
            return nullptr;
        std::byte* p = world_.memory.resolve(place_.node, ref, copy_.bytes, &wrong);
        if (p == nullptr) world_.fail("access", name_of_rank(index_) + ": " + wrong);
        return p;
    };
    from_ = at(copy_.from);
    to_ = at(copy_.to);
    from_use_ = world_.memory.use_of(place_.node, copy_.from);
    return from_ != nullptr && to_ != nullptr;
}

void RankActor::move() {
    const bool torn = world_.options.torn && copy_.bytes > 1;
    if (half_ < 2) {
        const uint64_t begin = half_ == 1 ? copy_.bytes / 2 : 0;
        const bool half = half_ == 0 && torn;
        result_ = transfer(begin, half ? copy_.bytes / 2 : copy_.bytes);
        half_ = half && result_ == MoveResult::kMoved ? 1 : 2;
        return again(world_.options.move_ns / 4);
    }
    WakeSet wake;
    engine_->finish(copy_, result_, &wake);
    ring(wake);
    idle_since_ns_ = world_.scheduler.now_ns();
    state_ = before_;
    again(world_.options.step_ns);
}

void RankActor::complete(Use& u) {
    if (u.complete) return world_.fail("once", "an operation completed twice");
    const OperationError error = engine_->error(u.record);
    if (world_.verbose())
        world_.log(name_of_rank(index_) + " completes operation " + std::to_string(u.operation->index) +
                   " error " + std::to_string(static_cast<int>(error)));
    if (world_.node_lost() && error == OperationError::kNone) world_.coverage.outlived_loss = 1;
    if (error == OperationError::kNone && world_.gave_up(u.operation->group))
        world_.coverage.outlived_giving_up = 1;
    if (is_perhaps_read(u)) withdraw(u);
    end(u, error);
    WakeSet wake;
    engine_->release(u.record, &wake);
    ring(wake);
    look_for_retired();
}

// Its buffers are the program's again, which writes into them.
void RankActor::end(Use& u, OperationError error) {
    check(u, error);
    u.complete = true;
    --open_;
    ++world_.coverage.operations;
    u.recv_key = u.recv_key ^ 0xa5a5;
    poison(u.recv, u.recv_key);
    world_.memory.set_closed(u.recv);
    if (u.send.owner != 0 && u.arena_bytes == 0) {
        u.send_key = u.send_key ^ 0x5a5a;
        poison(u.send, u.send_key);
        world_.memory.set_closed(u.send);
    }
}

void RankActor::look_for_retired() {
    for (Use& u : uses_) {
        if (!u.complete || u.retired) continue;
        const uint64_t bits = memory_.rank(place_.local).active[u.record.value / 64].load();
        if (bits >> (u.record.value % 64) & 1) continue;
        retire(u);
    }
}

bool RankActor::is_perhaps_read(const Use& u) const {
    return world_.options.lost_service != 0 && spans_nodes(*u.operation) &&
           may_still_be_read(engine_->error(u.record));
}

// Nobody needs it any more: its memory is given back, and what is still read from it is wrong from now on.
void RankActor::retire(Use& u) {
    u.retired = true;
    if (u.arena_bytes != 0 && !is_perhaps_read(u)) {
        fill_pattern(memory_.at<std::byte>(u.arena_at), kRetiredKey, 0, u.arena_bytes);
        engine_->arena().release(u.arena_at, u.arena_bytes);
    }
    if (u.own_send_region) world_.memory.remove_region(place_.node, place_.local, u.send_region);
    if (u.own_recv_region) world_.memory.remove_region(place_.node, place_.local, u.recv_region);
}

void RankActor::reap() {
    WakeSet wake;
    const uint32_t held = engine_->reap(&wake);
    let_go_of_given_up(&wake);
    ring(wake);
    // What others have given up they do not read any more, and nobody waits for that.
    if (held != 0 && world_.options.lost_service == 0) return again(50000);
    state_ = State::kDone;
    ++world_.ranks_done;
}

}  // namespace longshore::sim
