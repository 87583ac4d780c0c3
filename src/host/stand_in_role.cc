#include "host/stand_in_role.h"

#include <string.h>

namespace longshore {

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
        auto& role = static_cast<StandInRole&>(*group->context->role);
        return role.start_planned(*group, arguments, std::move(plan), std::move(data), out);
    });
}

}  // namespace longshore
