// When a rank ends an operation of several nodes in an error because it waits in vain: a service process of
// its node is lost for good, or blocks have failed for want of one elsewhere. Others may still be about to
// move its blocks, and its program then writes there. So its caller withdraws the buffers' regions first
// (who has copied looks afterwards: region_use.h), and then waits for those who hold claims on what it
// receives. One for each operation. Pure.
#pragma once

#include "engine/node_memory.h"

namespace longshore {

class GivingUp {
  public:
    // Whether it has waited in vain for longer than `limit_ns`. `failed`: a block has failed for want of a
    // service process; what is still missing may be that of ranks that have given up for the same reason, and
    // will never enter. `gone_since_ns`: since when the rank's node has a service process less; 0: it has
    // all.
    bool is_due(bool failed, uint64_t gone_since_ns, uint64_t now_ns, uint64_t limit_ns) {
        if (failed && failed_since_ns_ == 0) failed_since_ns_ = now_ns;
        return (failed && now_ns - failed_since_ns_ > limit_ns) ||
               (gone_since_ns != 0 && now_ns - gone_since_ns > limit_ns);
    }
    // It is due, and its regions are withdrawn: whether it may end. Who holds a claim may have died with it,
    // and where nobody comes after it nobody frees that.
    bool may_end(bool others_hold_claims, uint64_t now_ns, uint64_t limit_ns) {
        if (due_since_ns_ == 0) due_since_ns_ = now_ns;
        return !others_hold_claims || now_ns - due_since_ns_ > limit_ns;
    }

  private:
    uint64_t failed_since_ns_ = 0, due_since_ns_ = 0;  // 0: not yet
};

// Of an operation of several nodes that has ended so for a rank: whether others may still read what it gives,
// although its record says that they will not. A service process that is lost counts as having read all, and
// may have left some of it to another of its node. Then the rank withdraws its buffers' regions, too, and
// what lies in its arena stays.
constexpr bool may_still_be_read(OperationError error) {
    return error == OperationError::kServiceLost;
}

}  // namespace longshore
