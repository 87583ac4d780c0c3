// A rank on a node, in its application's process: it plans its operations, registers their buffers so that
// the node's service processes reach them, and moves blocks itself when it waits.
#pragma once

#include "host/node_role.h"

namespace longshore {

class LocalRole final : public NodeRole, RankBuffers {
  public:
    explicit LocalRole(ls_context& context) : NodeRole(context, true, *this) {}
    int start_operation(ls_group& group, const ls_arguments& arguments, ls_operation** out) override;
    const char* memory_reach() const override;

  private:
    bool prepare(ls_operation& operation) override;
    void let_go(ls_operation& operation) override;
    bool give_up(ls_operation& operation) override;
    bool copy_sent(ls_operation& operation, bool* is_placed);
};

}  // namespace longshore
