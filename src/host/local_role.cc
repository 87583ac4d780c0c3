#include "host/local_role.h"

#include <algorithm>

namespace longshore {

int LocalRole::start_operation(ls_group& group, const ls_arguments& arguments, ls_operation** out) {
    if (group.state != ls_group::State::kReady) return LS_ERR_UNAVAILABLE;
    if (!are_sound(arguments, group.size)) return LS_ERR_ARGUMENT;
    // Between nodes a copy is only worth it where the block then goes inside the notification.
    const uint64_t eager_bytes = group.several_nodes
                                     ? std::min<uint64_t>(c_.options.eager_bytes, kEagerBytesMax)
                                     : c_.options.eager_bytes;
    bool planned = false;
    ls_operation& op = operations_.take(group, arguments, eager_bytes, &planned);
    if (planned) {
        op.arguments.send_is_stable = false;
    } else {
        const int rc = make_plan(arguments, group.rank, group.size, eager_bytes, &op.plan, &op.arguments);
        if (rc != LS_OK) return rc;
        if (!op.plan.send_blocks.empty() || !op.plan.recv_blocks.empty())
            op.key.remember(arguments, group.id, group.size, eager_bytes);
    }
    operations_.begin(group, op, arguments.blocking == 0 || !c_.cooperative);
    *out = &op;
    return LS_OK;
}

const char* LocalRole::memory_reach() const {
    return stages_everything(c_.options) ? "staged" : "direct";
}

// Copies what is sent where others are to read the copy: into the arena, or where that is full into memory of
// its own. Without memory for it, too, what is sent is a region that nobody can read. False: no place in the
// region table.
bool LocalRole::copy_sent(ls_operation& op, bool* is_placed) {
    const Plan& plan = op.plan;
    OperationArguments& a = op.arguments;
    op.copy_offset = c_.engine->arena().allocate(plan.send_bytes);
    if (op.copy_offset != 0) {
        op.copy_bytes = plan.send_bytes;
        copy_out(plan, c_.mapping.data() + op.copy_offset);
        a.send.offset = op.copy_offset - c_.memory.arena_begin(c_.engine->self());
        // Over nodes a large snapshot is read out of this process, so completion waits for its readers.
        a.send_is_stable = plan.copy_send || !op.group->several_nodes;
        return *is_placed = true;
    }
    if (op.snapshot = Mapping::anonymous(plan.send_bytes); op.snapshot) {
        copy_out(plan, op.snapshot.data());
        return true;
    }
    // Reading it fails, so that all learn of it; leaving alone would make them wait.
    *is_placed = c_.regions.acquire_nothing(plan.send_bytes, &a.send);
    op.sent.ref = a.send;
    return *is_placed;
}

bool LocalRole::prepare(ls_operation& op) {
    Plan& plan = op.plan;
    OperationArguments& a = op.arguments;
    // A rank that waits at once writes its blocks itself; those that it gives others read.
    const uint64_t written = op.ring_services && plan.recv_is_full ? plan.recv_bytes : 0;
    if (!c_.regions.acquire(plan.recv, plan.recv_bytes, written, &op.received)) return false;
    a.recv = op.received.ref;
    op.sent = {{c_.engine->self(), kArenaRegion, 0}, -1};
    a.send = op.sent.ref;
    bool is_placed = plan.send_bytes == 0;
    if (!is_placed && (plan.copy_send || plan.snapshot) && !copy_sent(op, &is_placed)) {
        c_.regions.release(op.received);
        return false;
    }
    const auto* from = op.snapshot ? op.snapshot.data() : plan.send;
    const uint64_t readers = is_shared(a.collective) ? op.group->ranks_per_node - 1 : 1;
    const uint64_t read = op.snapshot || !plan.send_is_full ? 0 : plan.send_bytes * readers;
    if (!is_placed) {
        if (!c_.regions.acquire(from, plan.send_bytes, read, &op.sent)) {
            c_.regions.release(op.received);
            op.snapshot.reset();
            return false;
        }
        a.send = op.sent.ref;
    }
    set_blocks(op);
    return true;
}

// What is copied out of them meanwhile is found to have been withdrawn (NodeCopier); who has claimed a chunk
// before may still write it.
bool LocalRole::give_up(ls_operation& op) {
    if (op.state != ls_operation::State::kPosted) return true;
    c_.regions.withdraw(op.arguments.send.region);
    c_.regions.withdraw(op.arguments.recv.region);
    return !c_.engine->others_hold_claims(op.record);
}

void LocalRole::let_go(ls_operation& op) {
    c_.regions.release(op.received);
    c_.regions.release(op.sent);
    if (op.snapshot) {
        c_.regions.forget(op.snapshot.data(), op.plan.send_bytes);
        op.snapshot.reset();
    }
}

}  // namespace longshore
