// Operations of a rank that a DPU carries: planned here, with the buffers where the network can reach them,
// and posted to the stand-in, which says when they are over.
#pragma once

#include <memory>
#include <vector>

#include "host/far_groups.h"
#include "host/far_regions.h"

namespace longshore {

struct FarOperation : ls_operation {
    uint32_t far_id = 0;             // by which the stand-in knows it
    uint32_t regions[2] = {};        // of what is sent and received; 0: none
    std::byte* bounces[2] = {};      // where the caller's buffers are not shared memory
    std::vector<BlockSpan> scatter;  // blocks of a packed bounce of the receive buffer, where they belong
};

class FarOperations {
  public:
    FarOperations(ls_context& context, FarConnection& connection, AgentClient& agent)
        : c_(context), connection_(connection), regions_(context, connection, agent) {}
    int start(FarGroup& group, const ls_arguments& arguments, ls_operation** out);
    void free(FarOperation* operation);
    void describe(const FarOperation& operation, char* line, size_t bytes) const;
    // What the stand-in says. False: no such operation is open, or it cannot end so.
    bool take(const SessionDone& done);
    // The stand-in is lost.
    void fail();
    // That service processes have moved to this rank's buffers, by collective.
    uint64_t bytes_moved(uint32_t collective) const { return bytes_moved_[collective]; }

  private:
    FarOperation& take_free();
    void post(FarOperation& operation, const FarGroup& group);
    void place_sent(FarOperation& operation, SessionPost* post);
    void place_received(FarOperation& operation, SessionPost* post);
    // The buffer itself; null: memory to bounce it. Where there is neither, what is wanted there fails.
    void place(FarOperation& operation, int side, const void* base, uint64_t bytes, SessionPost* post);
    void finish(FarOperation& operation, int result);

    ls_context& c_;
    FarConnection& connection_;
    FarRegions regions_;
    std::vector<std::unique_ptr<FarOperation>> operations_;  // by far_id
    std::vector<FarOperation*> free_;
    uint64_t bytes_moved_[LS_COLLECTIVE_COUNT] = {};
};

}  // namespace longshore
