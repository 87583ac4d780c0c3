// A stand-in on a DPU: to the DPU's node it is a rank like any, but the rank's buffers are on another
// machine. So it starts operations that the rank has planned, on regions that the rank has opened to the
// network (dpu/card/stand_in_post.h), and moves no block itself.
#pragma once

#include "dpu/card/stand_in_post.h"
#include "host/node_role.h"

namespace longshore {

class StandInRole final : public NodeRole, RankBuffers {
  public:
    explicit StandInRole(ls_context& context) : NodeRole(context, false, *this) {}
    // Where a rank has no memory to give there is a region all the same, of a node that there is not: whoever
    // wants it learns that it cannot be had, and waits for nothing.
    void prepare_memory() override;
    // Not with buffers of this process: they are nobody's.
    int start_operation(ls_group&, const ls_arguments&, ls_operation**) override {
        return LS_ERR_UNAVAILABLE;
    }
    // See start_for_rank.
    int start_planned(ls_group& group, const OperationArguments& arguments, Plan plan,
                      std::vector<std::byte> data, ls_operation** out);
    // See claim_for_rank.
    bool claim(ls_operation& operation, RankCopy* out);
    void finish(const Copy& copy, bool ok);
    bool is_all_there(const ls_operation& operation);
    void leave(ls_operation& operation, bool leave);
    const char* memory_reach() const override { return c_.aliases ? "dpu-alias" : "dpu"; }

  private:
    bool describe(const ls_operation& operation, RankCopy* out);
    bool prepare(ls_operation& operation) override;
    void let_go(ls_operation&) override {}  // regions stay until the rank says otherwise
    // The rank withdraws them (dpu/rank/agent_client.h).
    bool give_up(ls_operation&) override { return true; }

    std::vector<uint32_t> ranks_;  // of the job, by local rank
};

// Contexts of this process may be of stand-ins from here on.
void add_stand_in_role();

}  // namespace longshore
