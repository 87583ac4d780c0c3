// The functions of host.h that depend on what this process is to its job: none does anything in a forked
// child, and what is left is the role's.
#include "host/host.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "host/context.h"
#include "host/local_role.h"
#include "host/role.h"

namespace longshore {

DpuRoles dpu_roles;

std::unique_ptr<Role> choose_role(ls_context& c) {
    const bool rank = c.options.dpu != nullptr, stand_in = c.options.host != nullptr;
    if (!rank && !stand_in) return std::make_unique<LocalRole>(c);
    const auto make = rank ? dpu_roles.rank : dpu_roles.stand_in;
    return make != nullptr ? make(c) : nullptr;
}

}  // namespace longshore

using namespace longshore;

// --- the job

int ls_context_test(ls_context* context) {
    return guarded(
        [&]() -> int { return is_forked(*context) ? LS_ERR_UNAVAILABLE : context->role->test_job(); });
}

void ls_context_free(ls_context* context) {
    if (context != nullptr && context->role->leave_job(is_forked(*context))) delete context;
}

// --- groups

int ls_group_start(ls_context* context, const ls_exchange* exchange, ls_group** out) {
    *out = nullptr;
    return guarded([&]() -> int {
        return is_forked(*context) ? LS_ERR_UNAVAILABLE : context->role->start_group(*exchange, out);
    });
}

int ls_group_test(ls_group* group) {
    return guarded([&]() -> int {
        ls_context& c = *group->context;
        return is_forked(c) ? LS_ERR_UNAVAILABLE : c.role->test_group(*group);
    });
}

void ls_group_free(ls_group* group) {
    if (group != nullptr && !is_forked(*group->context)) group->context->role->free_group(group);
}

void ls_group_shape(const ls_group* group, uint32_t* nodes, uint32_t* ranks_per_node) {
    *nodes = group->nodes;
    *ranks_per_node = group->ranks_per_node;
}

// --- operations

int ls_operation_start(ls_group* group, const ls_arguments* arguments, ls_operation** out) {
    *out = nullptr;
    return guarded([&]() -> int {
        ls_context& c = *group->context;
        return is_forked(c) ? LS_ERR_UNAVAILABLE : c.role->start_operation(*group, *arguments, out);
    });
}

int ls_operation_test(ls_operation* operation, int* moved) {
    if (moved != nullptr) *moved = 0;
    return guarded([&]() -> int {
        ls_context& c = *operation->group->context;
        return is_forked(c) ? LS_ERR_UNAVAILABLE : c.role->test_operation(*operation, moved);
    });
}

void ls_operation_free(ls_operation* operation) {
    if (operation == nullptr) return;
    ls_context& c = *operation->group->context;
    if (!is_forked(c)) c.role->free_operation(operation);
}

void ls_operation_describe(const ls_operation* operation, char* line, size_t bytes) {
    operation->group->context->role->describe(*operation, line, bytes);
}

uint32_t ls_waiting(const ls_context* context) {
    return context->waiting_count;
}

void ls_advance(ls_context* context) {
    guarded([&]() -> int {
        if (!is_forked(*context) && context->waiting_count != 0) context->role->advance();
        return LS_OK;
    });
}

void ls_set_cooperative(ls_context* context, int on) {
    context->cooperative = on != 0 && context->role->moves_blocks();
}

int ls_find_task_door(const ls_context* context, ls_task_door* out) {
    *out = {};
    if (is_forked(*context) || !context->control || context->options.host != nullptr)
        return LS_ERR_UNAVAILABLE;
    static_assert(sizeof out->name == sizeof context->supervisor_name.text &&
                  sizeof out->token == sizeof context->supervisor_token);
    memcpy(out->name, context->supervisor_name.text, sizeof out->name);
    memcpy(out->token, context->supervisor_token.data(), sizeof out->token);
    out->local_rank = context->local;
    out->local_count = context->local_count;
    return LS_OK;
}

int ls_find_far_task_door(const ls_context* context, ls_task_door* out) {
    *out = {};
    return !is_forked(*context) && context->role->find_far_task_door(out) ? LS_OK : LS_ERR_UNAVAILABLE;
}

// --- sleeping

void ls_sleep(ls_context* context, uint64_t timeout_ns) {
    if (!is_forked(*context)) context->role->sleep(timeout_ns);
}

void ls_sleeper_begin(const ls_context* context, ls_sleeper* sleeper) {
    *sleeper = {nullptr, -1, 0};
    if (!is_forked(*context)) context->role->begin_sleep(sleeper);
}

void ls_sleeper_sleep(ls_sleeper* sleeper, uint64_t timeout_ns) {
    if (sleeper->rank != nullptr) {
        sleeper->seen = sleep_rank(*static_cast<RankSlot*>(sleeper->rank), sleeper->seen, timeout_ns);
        return;
    }
    constexpr uint64_t kSecondNs = 1'000'000'000;
    const timespec timeout{static_cast<time_t>(timeout_ns / kSecondNs),
                           static_cast<long>(timeout_ns % kSecondNs)};
    pollfd ready{sleeper->fd, POLLIN, 0};
    ppoll(&ready, sleeper->fd >= 0, &timeout, nullptr);
}

// --- sight

uint32_t ls_services(const ls_context* context, ls_service_stats* out, uint32_t max) {
    return is_forked(*context) ? 0 : context->role->services(out, max);
}

void ls_rank_bytes(const ls_context* context, ls_collective_bytes out[LS_COLLECTIVE_COUNT]) {
    for (uint32_t i = 0; i < LS_COLLECTIVE_COUNT; ++i) out[i] = {};
    if (!is_forked(*context)) context->role->rank_bytes(out);
}

const char* ls_memory_reach(const ls_context* context) {
    return context->role->memory_reach();
}
