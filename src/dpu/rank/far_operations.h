// Operations of a rank that a DPU carries: planned here, with the buffers where the network can reach them,
// and posted to the stand-in, which says when they are over. What the stand-in does not take yet
// (dpu/session/session.h) waits here, in the order of its group.
#pragma once

#include <memory>
#include <vector>

#include "dpu/rank/far_groups.h"
#include "dpu/rank/far_neighbours.h"
#include "dpu/rank/far_regions.h"
#include "engine/hand_over.h"

namespace longshore {

struct FarOperation : ls_operation {
    uint32_t far_id = 0;             // by which the stand-in knows it
    uint32_t regions[2] = {};        // of what is sent and received; 0: none
    std::byte* bounces[2] = {};      // where the caller's buffers are not shared memory
    int places[2] = {-1, -1};        // among the open buffers of the shared memory
    std::vector<BlockSpan> scatter;  // blocks of a packed bounce of the receive buffer, where they belong
    std::byte* received = nullptr;   // where blocks come: the caller's buffer, or its bounce
    SessionCopies copies = SessionCopies::kNever;
    bool in_call = false;  // it was started by a call that returns when it is over
    uint32_t looks = 0;    // at it, of a caller that does not wait
};

class FarOperations {
  public:
    FarOperations(ls_context& context, FarConnection& connection, AgentClient& agent,
                  FarNeighbours& neighbours)
        : c_(context),
          connection_(connection),
          agent_(agent),
          neighbours_(neighbours),
          regions_(context, connection, agent) {}
    // This rank copies what is handed over to it.
    void allow_copies() { may_copy_ = true; }
    int start(FarGroup& group, const ls_arguments& arguments, ls_operation** out);
    void free(FarOperation* operation);
    void describe(const FarOperation& operation, char* line, size_t bytes) const;
    // What the stand-in says. False: no such operation is open, or it cannot end so.
    bool take(const SessionDone& done);
    // Posts of what waits as much as the stand-in takes by now, oldest first in every group.
    void post_waiting();
    // The stand-in is lost.
    void fail();
    // None is open.
    bool idle() const;

    // The caller looks at it, and does not wait.
    void note_look(FarOperation& operation);
    // The caller waits: what is to be copied for operations that no call waits for is handed over from now
    // on.
    void attend();
    // It waits no longer. False: the stand-in has to answer that, and what comes before is to be copied.
    bool leave();
    bool is_leaving() const { return handed_.is_leaving(); }
    bool left(const SessionAttend& answer) { return handed_.left(answer.serial); }
    // A copy for this rank. False: no stand-in says that.
    bool take(const HandedCopy& copy);
    // Makes the next one. False: there is none.
    bool copy_next();

    // That came to this rank's buffers, by collective: moved by service processes, copied by this rank, and
    // by the agent of its machine.
    uint64_t bytes_moved(uint32_t collective) const { return bytes_moved_[collective]; }
    uint64_t bytes_copied(uint32_t collective) const { return bytes_copied_[collective]; }
    uint64_t bytes_by_agent(uint32_t collective) const { return bytes_by_agent_[collective]; }
    // Blocks of ranks of its machine that came to this one: copied by itself, and by the agent.
    uint64_t blocks_by_rank() const { return blocks_by_rank_; }
    uint64_t blocks_by_agent() const { return blocks_by_agent_; }

  private:
    FarOperation& take_free();
    bool may_post(const FarGroup& group) const;
    void post_waiting(FarGroup& group);
    void post(FarOperation& operation, FarGroup& group);
    void place_sent(FarOperation& operation, SessionPost* post);
    void place_received(FarOperation& operation, SessionPost* post);
    // The buffer itself; null: memory to bounce it. Where there is neither, what is wanted there fails.
    void place(FarOperation& operation, int side, const void* base, uint64_t bytes, SessionPost* post);
    SessionCopies when_to_copy(const FarOperation& operation, const FarGroup& group) const;
    void answer(const HandedCopy& copy, bool ok);
    void withdraw();
    void finish(FarOperation& operation, int result);

    ls_context& c_;
    FarConnection& connection_;
    AgentClient& agent_;
    FarNeighbours& neighbours_;
    FarRegions regions_;
    HandedCopies handed_;
    bool may_copy_ = false, withdrawn_ = false;
    uint32_t posts_ = 0;     // open at the stand-in, of all groups
    uint32_t attended_ = 0;  // operations that are open, and copied for while the caller waits
    std::vector<std::unique_ptr<FarOperation>> operations_;  // by far_id
    std::vector<FarOperation*> free_;
    uint64_t bytes_moved_[LS_COLLECTIVE_COUNT] = {}, bytes_copied_[LS_COLLECTIVE_COUNT] = {},
             bytes_by_agent_[LS_COLLECTIVE_COUNT] = {};
    uint64_t blocks_by_rank_ = 0, blocks_by_agent_ = 0;
};

}  // namespace longshore
