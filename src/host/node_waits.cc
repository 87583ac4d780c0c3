// What an operation waits for, and when it waits in vain.
#include <stdio.h>
#include <string.h>

#include <utility>

#include "fabric/shm/sight_times.h"
#include "host/node_operations.h"
#include "host/role.h"

namespace longshore {
namespace {

// What a service process of this node has said it cannot go on for; empty: nothing.
std::string problem_of_services(const ls_context& c) {
    for (uint16_t s = 0; s < c.lives.size(); ++s) {
        const SightProblem& problem = SightLayout::problem(c.sight.data(), ServiceId{s});
        if (problem.count.load(std::memory_order_acquire) != 0)
            return {problem.text, strnlen(problem.text, sizeof problem.text)};
    }
    return {};
}

uint32_t world_rank(const ls_context& c, const Member& member) {
    for (uint32_t r = 0; r < c.size; ++r)
        if (c.places[r].node == member.node.value && c.places[r].local == member.local.value) return r;
    return 0;
}

}  // namespace

// Once: the caller may end the job at the first.
void say_service_lost(ls_context& c) {
    if (std::exchange(c.said_why, true)) return;
    const std::string problem = problem_of_services(c);
    const std::string line =
        "a collective cannot be finished: " +
        (problem.empty() ? "a service process of this node is gone, and none takes its place" : problem);
    log_line(c, 0, line.c_str());
}

int result_of(ls_context& c, const ls_operation& op) {
    switch (c.engine->error(op.record)) {
        case OperationError::kNone:
            return LS_OK;
        case OperationError::kTruncated:
            return LS_ERR_TRUNCATED;
        case OperationError::kUnreadable:
            // What is lost on the way looks like memory that cannot be read.
            if (problem_of_services(c).empty()) return LS_ERR_MEMORY;
            break;
        case OperationError::kServiceLost:
            break;
    }
    say_service_lost(c);
    return LS_ERR_SERVICE;
}

uint64_t limit_ns(const ls_context& c) {
    return c.options.limit_s * 1'000'000'000ull;
}

bool is_service_lost(const ls_context& c, ls_operation& op, uint64_t now) {
    if (!op.group->several_nodes && c.role->moves_blocks()) return false;
    const bool failed = op.state == ls_operation::State::kPosted &&
                        c.engine->error(op.record) == OperationError::kServiceLost;
    uint64_t gone_since_ns = 0;  // of the service process that has been gone for longest
    for (const ls_context::Life& life : c.lives) {
        if (life.gone_since_ns != 0 && (gone_since_ns == 0 || life.gone_since_ns < gone_since_ns))
            gone_since_ns = life.gone_since_ns;
    }
    return op.giving_up.is_due(failed, gone_since_ns, now, limit_ns(c));
}

void report_wait(ls_context& c, ls_operation& op, uint64_t now) {
    if (op.reported || c.options.wait_report_s == 0) return;
    if (now - op.waited_since_ns < c.options.wait_report_s * 1'000'000'000ull) return;
    op.reported = true;
    char line[256];
    describe_wait(c, op, line, sizeof line);
    log_line(c, 0, line);
}

void describe_wait(const ls_context& c, const ls_operation& operation, char* line, size_t bytes) {
    const ls_group& group = *operation.group;
    const char* name = rules_of(operation.arguments.collective).name;
    const auto sequence = static_cast<unsigned long long>(operation.arguments.sequence);
    const Member* const members = c.memory.members(c.memory.group(group.slot));
    Rank missing;
    if (operation.state == ls_operation::State::kWaiting) {
        snprintf(line, bytes, "rank %u: %s %llu waits for older operations of its group", c.rank, name,
                 sequence);
    } else if (operation.state == ls_operation::State::kPosted &&
               c.engine->missing_rank(operation.record, &missing)) {
        snprintf(line, bytes,
                 "rank %u: %s %llu waits for rank %u (rank %u of its group), which has not entered", c.rank,
                 name, sequence, world_rank(c, members[missing.value]), missing.value);
    } else if (operation.state == ls_operation::State::kPosted &&
               c.engine->others_hold_claims(operation.record)) {
        snprintf(line, bytes,
                 "rank %u: %s %llu waits for a service process or rank that holds a claim (is one stopped?)",
                 c.rank, name, sequence);
    } else if (operation.state == ls_operation::State::kPosted &&
               c.engine->awaited_rank(operation.record, &missing)) {
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

}  // namespace longshore
