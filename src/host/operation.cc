// Operations: planned, posted in the group's order, worked on while the caller waits, completed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "fabric/shm/sight_times.h"
#include "host/context.h"
#include "host/far.h"
#include "host/stand_in_post.h"

namespace longshore {
namespace {

constexpr uint32_t kLooksPerClock = 8;
constexpr size_t kPlansLookedAt = 8;
constexpr uint32_t kHeldMax = 4;  // of the 8 places that a rank has in a group's ring

void set_blocks(ls_operation& op) {
    op.arguments.send_blocks = op.plan.send_blocks.empty() ? nullptr : op.plan.send_blocks.data();
    op.arguments.recv_blocks = op.plan.recv_blocks.empty() ? nullptr : op.plan.recv_blocks.data();
    op.prepared = true;
}

// A stand-in's: the buffers are on the host, in regions that are published. False: not now.
bool prepare_here(ls_context& c, ls_operation& op) {
    if (!op.data.empty()) {
        op.copy_offset = c.engine->arena().allocate(op.data.size());
        if (op.copy_offset == 0) return false;
        op.copy_bytes = op.data.size();
        memcpy(c.mapping.data() + op.copy_offset, op.data.data(), op.data.size());
        op.arguments.send = {c.engine->self(), kArenaRegion,
                             op.copy_offset - c.memory.arena_begin(c.engine->self())};
        op.arguments.send_is_stable = true;
    }
    set_blocks(op);
    return true;
}

// Registers the buffers and copies what must be copied. False: not now.
bool prepare(ls_context& c, ls_operation& op) {
    if (c.options.host != nullptr) return prepare_here(c, op);
    Plan& plan = op.plan;
    OperationArguments& a = op.arguments;
    const LocalRank self = c.engine->self();
    // A rank that waits at once writes its blocks itself; those that it gives others read.
    const uint64_t written = op.ring_services && plan.recv_is_full ? plan.recv_bytes : 0;
    if (!c.regions.acquire(plan.recv, plan.recv_bytes, written, &a.recv)) return false;
    a.send = {self, kArenaRegion, 0};
    bool have_send = plan.send_bytes == 0;
    if (!have_send && (plan.copy_send || plan.snapshot)) {
        op.copy_offset = c.engine->arena().allocate(plan.send_bytes);
        if (op.copy_offset != 0) {
            op.copy_bytes = plan.send_bytes;
            copy_out(plan, c.mapping.data() + op.copy_offset);
            a.send.offset = op.copy_offset - c.memory.arena_begin(self);
            // Over nodes a large snapshot is read out of this process, so completion waits for its readers.
            a.send_is_stable = plan.copy_send || !op.group->several_nodes;
            have_send = true;
        } else if (op.snapshot = Mapping::anonymous(plan.send_bytes); op.snapshot) {
            copy_out(plan, op.snapshot.data());
        } else if (c.regions.acquire_nothing(plan.send_bytes, &a.send)) {
            // Reading it fails, so that all learn of it; leaving alone would make them wait.
            have_send = true;
        } else {
            c.regions.release(a.recv.region);
            return false;
        }
    }
    const auto* from = op.snapshot ? op.snapshot.data() : plan.send;
    const uint64_t readers = is_shared(a.collective) ? op.group->ranks_per_node - 1 : 1;
    const uint64_t read = op.snapshot || !plan.send_is_full ? 0 : plan.send_bytes * readers;
    if (!have_send && !c.regions.acquire(from, plan.send_bytes, read, &a.send)) {
        c.regions.release(a.recv.region);
        op.snapshot.reset();
        return false;
    }
    set_blocks(op);
    return true;
}

void note_published(ls_context& c, RecordId record) {
    SightTimes* times = SightLayout::times(c.sight.data(), c.engine->self(), record);
    if (times != nullptr) times->published_ns.store(now_ns(), std::memory_order_relaxed);
}

void forget_plan(ls_context& c, ls_operation& op) {
    op.key.forget();
    if (op.arrays != kNoArrays) c.engine->drop_arrays(op.arrays);
    op.arrays = kNoArrays;
}

// One that is free, at best with a plan for these arguments. Null: there is none.
ls_operation* take_operation(ls_context& c, const ls_group& group, const ls_arguments& arguments,
                             uint64_t eager_bytes, bool* planned) {
    if (c.free_operations.empty()) return nullptr;
    // The newest ones: what is repeated comes round soon.
    const size_t count = c.free_operations.size(), looked = std::min(count, kPlansLookedAt);
    for (size_t i = 0; i < looked; ++i) {
        ls_operation*& place = c.free_operations[count - 1 - i];
        if (!place->key.matches(arguments, group.id, group.size, eager_bytes)) continue;
        std::swap(place, c.free_operations.back());
        *planned = true;
        break;
    }
    // The oldest plan goes first.
    if (!*planned) std::swap(c.free_operations.front(), c.free_operations.back());
    return c.free_operations.back();
}

void reap(ls_context& c) {
    c.engine->reap(&c.wake);
    free_retired_copies(c);
}

// False: not now.
bool try_post(ls_context& c, ls_operation& op) {
    if (!op.prepared && !prepare(c, op)) return false;
    // What others have just begun to read is looked at later, once: its words are in their caches. Over
    // several nodes others may wait until this rank is past an operation.
    const bool reap_first = op.group->several_nodes || c.engine->held_count() >= kHeldMax;
    if (reap_first) reap(c);
    op.arguments.arrays = op.arrays;
    PostResult result = c.engine->post(op.arguments, op.ring_services, &op.record, &c.wake);
    if (result == PostResult::kLater) {
        // Make room, and try once more.
        if (!reap_first) reap(c);
        for (ls_operation* unused : c.free_operations) forget_plan(c, *unused);
        result = c.engine->post(op.arguments, op.ring_services, &op.record, &c.wake);
    }
    if (result == PostResult::kLater) return false;
    if (op.arrays == kNoArrays) op.arrays = c.engine->keep_arrays(op.record);
    op.state = ls_operation::State::kPosted;
    if (c.breakdown) note_published(c, op.record);
    flush_wake(c);
    return true;
}

void let_go(ls_context& c, ls_operation& op) {
    if (!op.prepared) return;
    op.prepared = false;
    if (c.options.host != nullptr) return;
    c.regions.release(op.arguments.recv.region);
    c.regions.release(op.arguments.send.region);
    if (op.snapshot) {
        c.regions.forget(op.snapshot.data(), op.plan.send_bytes);
        op.snapshot.reset();
    }
}

// What a service process of this node has said it cannot go on for; empty: nothing.
std::string problem_of_services(const ls_context& c) {
    for (uint16_t s = 0; s < c.lives.size(); ++s) {
        const SightProblem& problem = SightLayout::problem(c.sight.data(), ServiceId{s});
        if (problem.count.load(std::memory_order_acquire) != 0)
            return {problem.text, strnlen(problem.text, sizeof problem.text)};
    }
    return {};
}

// An operation fails for want of a service process. Said once: the caller may end the job at the first.
void say_why(ls_context& c) {
    if (std::exchange(c.said_why, true)) return;
    const std::string problem = problem_of_services(c);
    const std::string line =
        "a collective cannot be finished: " +
        (problem.empty() ? "a service process of this node is gone, and none takes its place" : problem);
    log_line(c, 0, line.c_str());
}

void complete(ls_context& c, ls_operation& op) {
    switch (c.engine->error(op.record)) {
        case OperationError::kNone:
            op.result = LS_OK;
            break;
        case OperationError::kUnreadable:
            // What is lost on the way looks like memory that cannot be read.
            op.result = problem_of_services(c).empty() ? LS_ERR_MEMORY : LS_ERR_SERVICE;
            if (op.result == LS_ERR_SERVICE) say_why(c);
            break;
        case OperationError::kTruncated:
            op.result = LS_ERR_TRUNCATED;
            break;
        case OperationError::kServiceLost:
            op.result = LS_ERR_SERVICE;
            say_why(c);
            break;
    }
    op.state = ls_operation::State::kComplete;
    if (c.breakdown) take_times(c, op.record);
    const auto& record = c.memory.record(c.engine->self(), op.record);
    const uint64_t generation = record.generation.load(std::memory_order_relaxed);
    c.engine->release(op.record, &c.wake);
    if (op.copy_bytes != 0) c.held_copies.push_back({op.record, generation, op.copy_offset, op.copy_bytes});
    op.copy_bytes = 0;
    free_retired_copies(c);
    let_go(c, op);
    flush_wake(c);
}

// Takes one chunk and moves it. False: there was none to take.
bool work(ls_context& c, ls_operation& op) {
    Copy copy;
    if (!c.engine->claim(op.record, &copy)) return false;
    const uint64_t begin = c.trace.empty() && !c.breakdown ? 0 : now_ns();
    const MoveResult result = c.copier->copy(copy.from, copy.to, copy.bytes, copy.working_set);
    if (c.breakdown) note_copy(c.memory, c.sight.data(), copy, begin, now_ns(), true);
    c.engine->finish(copy, result, &c.wake);
    if (!c.trace.empty())
        c.trace[c.trace_written++ % c.trace.size()] = {begin, now_ns(), UINT32_MAX, 0, copy.bytes};
    flush_wake(c);
    return true;
}

// A service process that this needs has been gone for too long and has no successor.
bool is_service_lost(const ls_context& c, ls_operation& op, uint64_t now) {
    if (!op.group->several_nodes && c.options.host == nullptr) return false;
    // On another node: its blocks have failed. What is still missing may be that of ranks that have given up
    // for the same reason, and will never enter.
    const bool failed = op.state == ls_operation::State::kPosted &&
                        c.engine->error(op.record) == OperationError::kServiceLost;
    if (failed && op.lost_since_ns == 0) op.lost_since_ns = now;
    if (failed && now - op.lost_since_ns > c.options.limit_s * 1'000'000'000ull) return true;
    if (!c.service_gone) return false;
    for (const ls_context::Life& life : c.lives) {
        if (life.gone_since_ns != 0 && now - life.gone_since_ns > c.options.limit_s * 1'000'000'000ull)
            return true;
    }
    return false;
}

void report_waiting(ls_context& c, ls_operation& op, uint64_t now) {
    if (op.reported || c.options.wait_report_s == 0) return;
    if (now - op.waited_since_ns < c.options.wait_report_s * 1'000'000'000ull) return;
    op.reported = true;
    char line[256];
    ls_operation_describe(&op, line, sizeof line);
    log_line(c, 0, line);
}

int test(ls_context& c, ls_operation& op, int* moved) {
    if (c.waiting_count > 0) post_waiting(c);
    if (op.state == ls_operation::State::kComplete || op.result != LS_IN_PROGRESS) return op.result;
    bool worked = false;
    if (op.state == ls_operation::State::kPosted) {
        // Looked at first: after a computation there is usually nothing left to do.
        bool complete_now = c.engine->poll(op.record) == Progress::kComplete;
        // What stands in for a rank has not its memory.
        const bool may_move =
            c.options.host == nullptr && (c.cooperative || c.service_gone || op.arguments.copies_itself);
        if (!complete_now && may_move) {
            worked = work(c, op);
            if (worked) complete_now = c.engine->poll(op.record) == Progress::kComplete;
        }
        if (complete_now) {
            complete(c, op);
            return op.result;
        }
    }
    if (moved != nullptr) *moved = worked;
    if (worked) return LS_IN_PROGRESS;
    // Waits look again at once: reading the clock would be a good part of most looks.
    if (++op.idle_looks % kLooksPerClock != 0) return LS_IN_PROGRESS;
    const uint64_t now = now_ns();
    if (op.waited_since_ns == 0) op.waited_since_ns = now;
    look_around(c, now);
    report_waiting(c, op, now);
    if (is_service_lost(c, op, now)) {
        op.result = LS_ERR_SERVICE;
        say_why(c);
    }
    return op.result;
}

}  // namespace

namespace {

ls_operation& add_operation(ls_context& c, bool next) {
    c.operations.push_back(std::make_unique<ls_operation>());
    ls_operation* added = c.operations.back().get();
    c.free_operations.insert(next ? c.free_operations.end() : c.free_operations.begin(), added);
    return *added;
}

// The last of the free operations, which is planned, is the group's next.
void begin(ls_group& group, ls_operation& op, bool ring_services) {
    ls_context& c = *group.context;
    c.free_operations.pop_back();
    op.state = ls_operation::State::kWaiting;
    op.group = &group;
    op.prepared = op.reported = false;
    op.ring_services = ring_services;
    op.result = LS_IN_PROGRESS;
    op.waited_since_ns = op.lost_since_ns = 0;
    op.idle_looks = 0;
    op.copy_bytes = 0;
    op.arguments.group = group.slot;
    op.arguments.rank = Rank{group.rank};
    op.arguments.copies_itself = c.cooperative;
    op.arguments.sequence = ++group.sequence;
    ++group.open;
    ++c.waiting_count;
    if (c.waiting_count == 1 && try_post(c, op)) {
        --c.waiting_count;
    } else {
        group.waiting.push_back(&op);
        post_waiting(c);
    }
}

}  // namespace

bool publish_region_of_rank(ls_context& c, RegionId region, HostRegion description) {
    if (!c.engine || region == kArenaRegion || region.value >= c.memory.limits().regions_max) return false;
    RegionEntry& entry = c.memory.region(c.engine->self(), region);
    if (entry.generation.load(std::memory_order_relaxed) % 2 != 0) withdraw_region(entry);
    description.node = NodeId{static_cast<uint16_t>(c.node)};
    return publish_host_region(entry, description);
}

int start_for_rank(ls_group* group, const OperationArguments& arguments, Plan plan,
                   std::vector<std::byte> data, ls_operation** out) {
    *out = nullptr;
    return guarded([&]() -> int {
        ls_context& c = *group->context;
        if (group->state != ls_group::State::kReady) return LS_ERR_UNAVAILABLE;
        if (c.free_operations.empty()) add_operation(c, true);
        ls_operation& op = *c.free_operations.back();
        forget_plan(c, op);
        op.plan = std::move(plan);
        op.data = std::move(data);
        op.arguments = arguments;
        op.arguments.send.rank = op.arguments.recv.rank = c.engine->self();
        begin(*group, op, true);
        *out = &op;
        return LS_OK;
    });
}

void post_waiting(ls_context& c) {
    for (ls_group* group : c.groups) {
        while (!group->waiting.empty()) {
            ls_operation& op = *group->waiting.front();
            if (!try_post(c, op)) break;
            group->waiting.pop_front();
            --c.waiting_count;
        }
    }
}

}  // namespace longshore

using namespace longshore;

int ls_operation_start(ls_group* group, const ls_arguments* arguments, ls_operation** out) {
    *out = nullptr;
    return guarded([&]() -> int {
        ls_context& c = *group->context;
        // What a stand-in has in its own memory is nobody's: it starts what its rank has planned.
        if (is_forked(c) || c.options.host != nullptr) return LS_ERR_UNAVAILABLE;
        if (!c.far && group->state != ls_group::State::kReady) return LS_ERR_UNAVAILABLE;
        if (static_cast<uint32_t>(arguments->collective) >= LS_COLLECTIVE_COUNT ||
            arguments->algorithm < LS_DIRECT || arguments->algorithm > LS_STAGED_HIERARCHICAL ||
            arguments->root >= group->size)
            return LS_ERR_ARGUMENT;
        if (c.far) return c.far->start_operation(*group, *arguments, out);
        // Between nodes a copy is only worth it where the block then goes inside the notification.
        const uint64_t eager_bytes = group->several_nodes
                                         ? std::min<uint64_t>(c.options.eager_bytes, kEagerBytesMax)
                                         : c.options.eager_bytes;
        if (c.free_operations.size() < kPlansLookedAt && c.operations.size() < kPlansLookedAt)
            add_operation(c, false);
        bool planned = false;
        ls_operation* taken = take_operation(c, *group, *arguments, eager_bytes, &planned);
        ls_operation& op = taken != nullptr ? *taken : add_operation(c, true);
        if (planned) {
            op.arguments.send_is_stable = false;
        } else {
            forget_plan(c, op);
            const int rc =
                make_plan(*arguments, group->rank, group->size, eager_bytes, &op.plan, &op.arguments);
            if (rc != LS_OK) return rc;
            if (!op.plan.send_blocks.empty() || !op.plan.recv_blocks.empty())
                op.key.remember(*arguments, group->id, group->size, eager_bytes);
        }
        begin(*group, op, arguments->blocking == 0 || !c.cooperative);
        *out = &op;
        return LS_OK;
    });
}

int ls_operation_test(ls_operation* operation, int* moved) {
    if (moved != nullptr) *moved = 0;
    return guarded([&]() -> int {
        ls_context& c = *operation->group->context;
        if (is_forked(c)) return LS_ERR_UNAVAILABLE;
        return c.far ? c.far->test_operation(*operation) : test(c, *operation, moved);
    });
}

uint32_t ls_waiting(const ls_context* context) {
    return context->waiting_count;
}

void ls_advance(ls_context* context) {
    guarded([&]() -> int {
        ls_context& c = *context;
        if (is_forked(c) || c.waiting_count == 0) return LS_OK;  // for a DPU none ever waits here
        for (const auto& op : c.operations) {
            if (op->state == ls_operation::State::kPosted && op->result == LS_IN_PROGRESS &&
                c.engine->poll(op->record) == Progress::kComplete)
                complete(c, *op);
        }
        post_waiting(c);
        return LS_OK;
    });
}

void ls_operation_free(ls_operation* operation) {
    if (operation == nullptr) return;
    ls_group* group = operation->group;
    ls_context& c = *group->context;
    if (is_forked(c)) return;
    if (c.far) return c.far->free_operation(operation);
    if (operation->state == ls_operation::State::kWaiting) {
        std::erase(group->waiting, operation);
        --c.waiting_count;
    }
    // One that ended in an error while peers may still look at its record keeps it, and its buffers' regions.
    if (operation->state != ls_operation::State::kPosted) {
        let_go(c, *operation);
        operation->state = ls_operation::State::kFree;
        c.free_operations.push_back(operation);
    }
    --group->open;
    if (group->dying) ls_group_free(group);
}

namespace {

uint32_t world_rank(const ls_context& c, const Member& member) {
    for (uint32_t r = 0; r < c.size; ++r)
        if (c.places[r].node == member.node.value && c.places[r].local == member.local.value) return r;
    return 0;
}

}  // namespace

void ls_operation_describe(const ls_operation* operation, char* line, size_t bytes) {
    const ls_group& group = *operation->group;
    const ls_context& c = *group.context;
    if (c.far) return c.far->describe(*operation, line, bytes);
    const char* name = rules_of(operation->arguments.collective).name;
    const auto sequence = static_cast<unsigned long long>(operation->arguments.sequence);
    const Member* members = c.memory.members(c.memory.group(group.slot));
    Rank missing;
    if (operation->state == ls_operation::State::kWaiting) {
        snprintf(line, bytes, "rank %u: %s %llu waits for older operations of its group", c.rank, name,
                 sequence);
    } else if (operation->state == ls_operation::State::kPosted &&
               c.engine->missing_rank(operation->record, &missing)) {
        snprintf(line, bytes,
                 "rank %u: %s %llu waits for rank %u (rank %u of its group), which has not entered", c.rank,
                 name, sequence, world_rank(c, members[missing.value]), missing.value);
    } else if (operation->state == ls_operation::State::kPosted &&
               c.engine->others_hold_claims(operation->record)) {
        snprintf(line, bytes,
                 "rank %u: %s %llu waits for a service process or rank that holds a claim (is one stopped?)",
                 c.rank, name, sequence);
    } else if (operation->state == ls_operation::State::kPosted &&
               c.engine->awaited_rank(operation->record, &missing)) {
        snprintf(
            line, bytes,
            "rank %u: %s %llu waits for the block of rank %u (rank %u of its group, on node %u), which has "
            "perhaps not entered",
            c.rank, name, sequence, world_rank(c, members[missing.value]), missing.value,
            members[missing.value].node.value);
    } else {
        snprintf(line, bytes, "rank %u: %s %llu waits until other ranks have read its block", c.rank, name,
                 sequence);
    }
}
