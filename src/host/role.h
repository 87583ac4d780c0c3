// What this process is to its job: chosen once, when the context is made (choose_role), and asked for
// whatever roles do differently. There are three:
// - local_role: a rank on a node. It has its buffers, and moves blocks beside the node's service processes.
// - dpu/rank/far_role: a rank whose operations a DPU carries. It asks its stand-in there for everything.
// - dpu/card/stand_in_role: the stand-in of such a rank, a rank on the DPU's node that has not its memory.
//
// What the first and the last have in common, an engine in the node's shared memory, is in node_role.
// The functions are those of host.h that have the same names there; host.cc calls them, and but for leave_job
// never in a forked child.
#pragma once

#include <memory>

#include "host/host.h"

namespace longshore {

class Role {
  public:
    Role(const Role&) = delete;
    Role& operator=(const Role&) = delete;
    virtual ~Role() = default;

    // The first exchange is under way when this returns LS_OK.
    virtual int start_job() = 0;
    // The node's memory is there, and nobody looks at this rank's part of it yet.
    virtual void prepare_memory() {}
    virtual int test_job() = 0;
    // Tells the others that this rank is gone; in a forked child it only lets go of what the child has copies
    // of. Returns whether the context may be deleted.
    virtual bool leave_job(bool is_forked) = 0;

    virtual int start_group(const ls_exchange& exchange, ls_group** out) = 0;
    virtual int test_group(ls_group& group) = 0;
    virtual void free_group(ls_group* group) = 0;

    virtual int start_operation(ls_group& group, const ls_arguments& arguments, ls_operation** out) = 0;
    virtual int test_operation(ls_operation& operation, int* moved) = 0;
    virtual void free_operation(ls_operation* operation) = 0;
    virtual void describe(const ls_operation& operation, char* line, size_t bytes) = 0;
    // Posts what waits for older operations (ls_waiting).
    virtual void advance() = 0;

    // The caller waits, or does no longer (ls_begin_wait).
    virtual void begin_wait() {}
    virtual void end_wait() {}
    virtual void sleep(uint64_t timeout_ns) = 0;
    // Fills in what wakes the sleeper; nothing is in it yet.
    virtual void begin_sleep(ls_sleeper* sleeper) const = 0;

    virtual uint32_t services(ls_service_stats* out, uint32_t max) = 0;
    virtual void rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const = 0;
    // Of a rank whose work a DPU does: what has come to it by copies on its machine.
    virtual ls_moved_bytes copied_on_host() const { return {}; }
    // Of a rank whose work a DPU does. False: there is none.
    virtual bool find_far_task_door(ls_task_door*) const { return false; }
    virtual const char* memory_reach() const = 0;
    // Whether this process has its rank's buffers mapped: it then can move blocks itself, and on its own node
    // needs no service process for them.
    bool moves_blocks() const { return moves_blocks_; }

  protected:
    explicit Role(bool moves_blocks) : moves_blocks_(moves_blocks) {}

  private:
    const bool moves_blocks_;
};

// Roles of jobs whose work a DPU does. Who links src/dpu fills them in before it makes a context; without
// them such a job is refused.
struct DpuRoles {
    std::unique_ptr<Role> (*rank)(ls_context& context) = nullptr;
    std::unique_ptr<Role> (*stand_in)(ls_context& context) = nullptr;
    uint64_t layout = 0;  // of the rank's, as ls_layout(): what it and a stand-in say to each other
};
extern DpuRoles dpu_roles;

// By the context's options, which are complete. Null: it is one of those, and this program has it not.
std::unique_ptr<Role> choose_role(ls_context& context);

}  // namespace longshore
