#include "dpu/card/stand_in_role.h"

#include <string.h>

#include "dpu/session/session.h"

namespace longshore {
namespace {

StandInRole& role_of(const ls_context& context) {
    return static_cast<StandInRole&>(*context.role);
}

}  // namespace

void StandInRole::prepare_memory() {
    publish_host_region(c_.memory.region(c_.engine->self(), RegionId{kFarRegionsMax}),
                        {NodeId{UINT16_MAX}, 0, INT64_MAX, {std::byte{0}}, {}});
}

int StandInRole::start_planned(ls_group& group, const OperationArguments& arguments, Plan plan,
                               std::vector<std::byte> data, ls_operation** out) {
    if (group.state != ls_group::State::kReady) return LS_ERR_UNAVAILABLE;
    ls_operation& op = operations_.take_unplanned();
    op.plan = std::move(plan);
    op.data = std::move(data);
    op.arguments = arguments;
    op.arguments.send.rank = op.arguments.recv.rank = c_.engine->self();
    operations_.begin(group, op, true);
    *out = &op;
    return LS_OK;
}

// Large data are in the rank's regions; small ones came with the operation, and go into this process's arena.
bool StandInRole::prepare(ls_operation& op) {
    if (!op.data.empty()) {
        op.copy_offset = c_.engine->arena().allocate(op.data.size());
        if (op.copy_offset == 0) return false;
        op.copy_bytes = op.data.size();
        memcpy(c_.mapping.data() + op.copy_offset, op.data.data(), op.data.size());
        op.arguments.send = {c_.engine->self(), kArenaRegion,
                             op.copy_offset - c_.memory.arena_begin(c_.engine->self())};
        op.arguments.send_is_stable = true;
    }
    set_blocks(op);
    return true;
}

// --- copies that the rank makes (engine/hand_over.h)

// Where the two ends are in the ranks' own terms. False: somewhere else.
bool StandInRole::describe(const ls_operation& op, RankCopy* out) {
    if (ranks_.empty()) {
        ranks_.resize(c_.local_count);
        for (uint32_t r = 0; r < c_.size; ++r)
            if (c_.places[r].node == c_.node) ranks_[c_.places[r].local] = r;
    }
    const Copy& copy = out->copy;
    HostRegion region, own;
    if (copy.from.rank.value >= ranks_.size() || copy.from.region == kArenaRegion ||
        !read_host_region(c_.memory.region(copy.from.rank, copy.from.region), &region) ||
        region.node != NodeId{static_cast<uint16_t>(c_.node)} || copy.from.offset > region.bytes ||
        copy.bytes > region.bytes - copy.from.offset || copy.to.region != op.arguments.recv.region ||
        copy.to.offset < op.arguments.recv.offset ||
        !read_host_region(c_.memory.region(copy.to.rank, copy.to.region), &own))
        return false;
    out->giver = ranks_[copy.from.rank.value];
    out->from = region.heap_unit * kHeapUnitBytes + copy.from.offset;
    out->to = copy.to.offset - op.arguments.recv.offset;
    out->to_in_heap = own.heap_unit * kHeapUnitBytes + copy.to.offset;
    return true;
}

bool StandInRole::claim(ls_operation& op, RankCopy* out) {
    if (op.state != ls_operation::State::kPosted || op.result != LS_IN_PROGRESS) return false;
    while (c_.engine->claim_for_rank(op.record, &out->copy)) {
        if (out->copy.doomed == 0 && describe(op, out)) return true;
        finish(out->copy, false);
    }
    return false;
}

void StandInRole::finish(const Copy& copy, bool ok) {
    c_.engine->finish(copy, ok ? MoveResult::kMoved : MoveResult::kFailed, &c_.wake);
    flush_wake(c_);
}

bool StandInRole::is_all_there(const ls_operation& op) {
    return op.state == ls_operation::State::kPosted && c_.engine->is_all_there(op.record);
}

void StandInRole::leave(ls_operation& op, bool leave) {
    op.arguments.hands_over = !leave;
    if (op.state == ls_operation::State::kPosted) c_.engine->leave_to_services(op.record, leave, &c_.wake);
    flush_wake(c_);
}

bool may_be_over(const ls_operation* operation) {
    return operation->state != ls_operation::State::kWaiting || operation->group->context->service_gone;
}

bool claim_for_rank(ls_operation* operation, RankCopy* out) {
    return role_of(*operation->group->context).claim(*operation, out);
}

void finish_for_rank(ls_context& context, const Copy& copy, bool ok) {
    role_of(context).finish(copy, ok);
}

bool is_all_there(ls_operation* operation) {
    return role_of(*operation->group->context).is_all_there(*operation);
}

void leave_to_services(ls_operation* operation, bool leave) {
    role_of(*operation->group->context).leave(*operation, leave);
}

void leave_node(const ls_context& context) {
    note_leaving(context);
}

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
        return role_of(*group->context)
            .start_planned(*group, arguments, std::move(plan), std::move(data), out);
    });
}

void add_stand_in_role() {
    dpu_roles.stand_in = [](ls_context& context) -> std::unique_ptr<Role> {
        return std::make_unique<StandInRole>(context);
    };
}

}  // namespace longshore
