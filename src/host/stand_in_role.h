// A stand-in on a DPU: to the DPU's node it is a rank like any, but the rank's buffers are on another
// machine. So it starts operations that the rank has planned, on regions that the rank has opened to the
// network (host/stand_in_post.h), and moves no block itself.
#pragma once

#include "host/node_role.h"
#include "host/stand_in_post.h"

namespace longshore {

class StandInRole final : public NodeRole, RankBuffers {
  public:
    explicit StandInRole(ls_context& context) : NodeRole(context, false, *this) {}
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
    void let_go(ls_operation&) override {}                 // regions stay until the rank says otherwise
    bool give_up(ls_operation&) override { return true; }  // the rank withdraws them (host/agent_client.h)

    std::vector<uint32_t> ranks_;  // of the job, by local rank
};

}  // namespace longshore
