#include "host/node_operations.h"

#include <algorithm>
#include <utility>

#include "fabric/shm/sight_times.h"
#include "host/role.h"

namespace longshore {
namespace {

constexpr uint64_t kLookNs = 20'000'000;
constexpr uint32_t kLooksPerClock = 8;
constexpr size_t kPlansLookedAt = 8;
constexpr uint32_t kHeldMax = 4;  // of the 8 places that a rank has in a group's ring

void note_published(ls_context& c, RecordId record) {
    SightTimes* times = SightLayout::times(c.sight.data(), c.engine->self(), record);
    if (times != nullptr) times->published_ns.store(now_ns(), std::memory_order_relaxed);
}

}  // namespace

void set_blocks(ls_operation& op) {
    op.arguments.send_blocks = op.plan.send_blocks.empty() ? nullptr : op.plan.send_blocks.data();
    op.arguments.recv_blocks = op.plan.recv_blocks.empty() ? nullptr : op.plan.recv_blocks.data();
}

// --- which operation

ls_operation& NodeOperations::add(bool next) {
    operations_.push_back(std::make_unique<ls_operation>());
    ls_operation* added = operations_.back().get();
    free_.insert(next ? free_.end() : free_.begin(), added);
    return *added;
}

ls_operation& NodeOperations::take(const ls_group& group, const ls_arguments& arguments, uint64_t eager_bytes,
                                   bool* planned) {
    *planned = false;
    if (free_.size() < kPlansLookedAt && operations_.size() < kPlansLookedAt) add(false);
    if (free_.empty()) return add(true);
    // The newest ones: what is repeated comes round soon.
    const size_t count = free_.size(), looked = std::min(count, kPlansLookedAt);
    for (size_t i = 0; i < looked; ++i) {
        ls_operation*& place = free_[count - 1 - i];
        if (!place->key.matches(arguments, group.id, group.size, eager_bytes)) continue;
        std::swap(place, free_.back());
        *planned = true;
        return *free_.back();
    }
    // The oldest plan goes first.
    std::swap(free_.front(), free_.back());
    forget_plan(*free_.back());
    return *free_.back();
}

ls_operation& NodeOperations::take_unplanned() {
    if (free_.empty()) add(true);
    forget_plan(*free_.back());
    return *free_.back();
}

void NodeOperations::forget_plan(ls_operation& op) {
    op.key.forget();
    if (op.arrays != kNoArrays) c_.engine->drop_arrays(op.arrays);
    op.arrays = kNoArrays;
}

// --- posting

void NodeOperations::begin(ls_group& group, ls_operation& op, bool ring_services) {
    free_.pop_back();
    op.state = ls_operation::State::kWaiting;
    op.group = &group;
    op.prepared = op.reported = false;
    op.ring_services = ring_services;
    op.result = LS_IN_PROGRESS;
    op.waited_since_ns = 0;
    op.giving_up = {};
    op.idle_looks = 0;
    op.copy_bytes = 0;
    op.arguments.group = group.slot;
    op.arguments.rank = Rank{group.rank};
    op.arguments.copies_itself = c_.cooperative;
    op.arguments.sequence = ++group.sequence;
    ++group.open;
    ++c_.waiting_count;
    if (c_.waiting_count == 1 && try_post(op)) {
        --c_.waiting_count;
    } else {
        group.waiting.push_back(&op);
        post_waiting();
    }
}

// False: not now.
bool NodeOperations::try_post(ls_operation& op) {
    if (!op.prepared && !buffers_.prepare(op)) return false;
    op.prepared = true;
    // What others have just begun to read is looked at later, once: its words are in their caches. Over
    // several nodes others may wait until this rank is past an operation.
    const bool reap_first = op.group->several_nodes || c_.engine->held_count() >= kHeldMax;
    if (reap_first) reap();
    op.arguments.arrays = op.arrays;
    PostResult result = c_.engine->post(op.arguments, op.ring_services, &op.record, &c_.wake);
    if (result == PostResult::kLater) {
        // Make room, and try once more.
        if (!reap_first) reap();
        for (ls_operation* unused : free_) forget_plan(*unused);
        result = c_.engine->post(op.arguments, op.ring_services, &op.record, &c_.wake);
    }
    if (result == PostResult::kLater) return false;
    if (op.arrays == kNoArrays) op.arrays = c_.engine->keep_arrays(op.record);
    op.state = ls_operation::State::kPosted;
    if (c_.breakdown) note_published(c_, op.record);
    flush_wake(c_);
    return true;
}

// Tries to post what waits, oldest first in every group.
void NodeOperations::post_waiting() {
    for (ls_group* group : c_.groups) {
        while (!group->waiting.empty()) {
            ls_operation& op = *group->waiting.front();
            if (!try_post(op)) break;
            group->waiting.pop_front();
            --c_.waiting_count;
        }
    }
}

void NodeOperations::reap() {
    c_.engine->reap(&c_.wake);
    free_retired_copies();
    free_given_up();
}

void NodeOperations::free_given_up() {
    std::erase_if(given_up_, [&](ls_operation* op) {
        if (c_.engine->poll(op->record) != Progress::kComplete) return false;
        complete(*op);
        free(op);
        return true;
    });
}

void NodeOperations::free_retired_copies() {
    std::erase_if(held_copies_, [&](const HeldCopy& copy) {
        const auto& record = c_.memory.record(c_.engine->self(), copy.record);
        if (record.generation.load(std::memory_order_relaxed) == copy.generation) return false;
        // Its record was retired just now, and says how it ended.
        if (!copy.several_nodes || !may_still_be_read(error_in(record.error.load(std::memory_order_relaxed))))
            c_.engine->arena().release(copy.offset, copy.bytes);
        return true;
    });
}

// --- working and completing

// Takes one chunk and moves it. False: there was none to take.
bool NodeOperations::work(ls_operation& op) {
    Copy copy;
    if (!c_.engine->claim(op.record, &copy)) return false;
    const uint64_t begin = c_.trace.empty() && !c_.breakdown ? 0 : now_ns();
    const MoveResult result = c_.copier->copy(copy.from, copy.to, copy.bytes, copy.working_set);
    if (c_.breakdown) note_copy(c_.memory, c_.sight.data(), copy, begin, now_ns(), true);
    c_.engine->finish(copy, result, &c_.wake);
    if (!c_.trace.empty())
        c_.trace[c_.trace_written++ % c_.trace.size()] = {begin, now_ns(), UINT32_MAX, 0, copy.bytes};
    flush_wake(c_);
    return true;
}

void NodeOperations::complete(ls_operation& op) {
    op.result = result_of(c_, op);
    if (op.group->several_nodes && may_still_be_read(c_.engine->error(op.record))) buffers_.give_up(op);
    op.state = ls_operation::State::kComplete;
    if (c_.breakdown) take_times(c_, op.record);
    const auto& record = c_.memory.record(c_.engine->self(), op.record);
    const uint64_t generation = record.generation.load(std::memory_order_relaxed);
    c_.engine->release(op.record, &c_.wake);
    if (op.copy_bytes != 0)
        held_copies_.push_back(
            {op.record, generation, op.copy_offset, op.copy_bytes, op.group->several_nodes});
    op.copy_bytes = 0;
    free_retired_copies();
    let_go(op);
    flush_wake(c_);
}

void NodeOperations::let_go(ls_operation& op) {
    if (std::exchange(op.prepared, false)) buffers_.let_go(op);
}

int NodeOperations::test(ls_operation& op, int* moved) {
    if (c_.waiting_count > 0) post_waiting();
    if (op.state == ls_operation::State::kComplete || op.result != LS_IN_PROGRESS) return op.result;
    bool worked = false;
    if (op.state == ls_operation::State::kPosted) {
        // Looked at first: after a computation there is usually nothing left to do.
        bool complete_now = c_.engine->poll(op.record) == Progress::kComplete;
        const bool may_move =
            c_.role->moves_blocks() && (c_.cooperative || c_.service_gone || op.arguments.copies_itself);
        if (!complete_now && may_move) {
            worked = work(op);
            if (worked) complete_now = c_.engine->poll(op.record) == Progress::kComplete;
        }
        if (complete_now) {
            complete(op);
            return op.result;
        }
    }
    if (moved != nullptr) *moved = worked;
    if (worked) return LS_IN_PROGRESS;
    // Waits look again at once: reading the clock would be a good part of most looks.
    if (++op.idle_looks % kLooksPerClock != 0) return LS_IN_PROGRESS;
    const uint64_t now = awake_ns();
    if (op.waited_since_ns == 0) op.waited_since_ns = now;
    look_around(now);
    report_wait(c_, op, now);
    if (is_service_lost(c_, op, now)) give_up(op, now);
    return op.result;
}

void NodeOperations::give_up(ls_operation& op, uint64_t now) {
    const bool others_hold_claims = !buffers_.give_up(op);
    if (op.state == ls_operation::State::kPosted) c_.engine->give_up(op.record, &c_.wake);
    flush_wake(c_);
    if (!op.giving_up.may_end(others_hold_claims, now, limit_ns(c_))) return;
    op.result = LS_ERR_SERVICE;
    say_service_lost(c_);
}

// Things that need a look now and then: lives of service processes, lines from the supervisor, retired
// records.
void NodeOperations::look_around(uint64_t now) {
    if (now < next_look_ns_) return;
    next_look_ns_ = now + kLookNs;
    look_at_lives(c_, now);
    for (const auto& op : operations_) {
        if (op->state == ls_operation::State::kPosted && op->waited_since_ns != 0) show_wait(c_, *op, now);
    }
    talk_to_supervisor(c_);
    drop_dying_groups(c_);
    free_retired_copies();
    flush_wake(c_);
}

void NodeOperations::advance() {
    for (const auto& op : operations_) {
        if (op->state == ls_operation::State::kPosted && op->result == LS_IN_PROGRESS &&
            c_.engine->poll(op->record) == Progress::kComplete)
            complete(*op);
    }
    post_waiting();
}

bool NodeOperations::free(ls_operation* op) {
    if (op->state == ls_operation::State::kWaiting) {
        std::erase(op->group->waiting, op);
        --c_.waiting_count;
    }
    // One that ended in an error while peers may still look at its record keeps it until it is complete; its
    // buffers are withdrawn.
    if (op->state == ls_operation::State::kPosted) {
        given_up_.push_back(op);
        return false;
    }
    --op->group->open;
    let_go(*op);
    op->state = ls_operation::State::kFree;
    free_.push_back(op);
    return true;
}

}  // namespace longshore
