// Pieces of a rank's shared memory that its machine's agent has opened to the network, for the service
// processes of a DPU. Opened when first needed, kept, and closed when others need the room.
#pragma once

#include <vector>

#include "dpu/rank/agent_client.h"
#include "dpu/rank/far_connection.h"

namespace longshore {

class FarRegions {
  public:
    FarRegions(ls_context& context, FarConnection& connection, AgentClient& agent)
        : c_(context), connection_(connection), agent_(agent) {}
    // Whether all of it is memory that can be opened, and stays so until the place is left (close_buffer).
    bool is_shared(const void* base, uint64_t bytes, int* place) const;
    void leave(int place) const;
    // Whether so many more can be pinned now, wherever they are.
    bool has_room(uint32_t count) const;
    // Which region the bytes of shared memory are in, and where; the region stays open until unpin(). False:
    // the agent cannot open it.
    bool pin(const void* base, uint64_t bytes, uint32_t* region, uint64_t* offset);
    void unpin(uint32_t region);
    // Closes those that nothing needs.
    void close_unused();

  private:
    struct Region {
        uint64_t begin = 0, end = 0;  // addresses of this process
        uint64_t last_use = 0;
        uint64_t opened = 0;  // the agent's number for it
        uint32_t pins = 0;
        bool used = false;
    };
    uint32_t make_room();

    ls_context& c_;
    FarConnection& connection_;
    AgentClient& agent_;
    std::vector<Region> regions_{1};  // by their numbers, of which 0 is none
    uint64_t clock_ = 0;
};

}  // namespace longshore
