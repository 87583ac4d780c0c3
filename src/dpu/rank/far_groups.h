// Groups of a rank whose operations a DPU carries: its stand-in makes them, and the rank makes the exchanges
// for that.
#pragma once

#include "dpu/rank/far_connection.h"
#include "dpu/rank/far_exchange.h"

namespace longshore {

struct FarGroup : ls_group {
    uint64_t far_id = 0;  // by which the stand-in knows it
    uint32_t posts = 0;   // its operations that are open on the DPU
    FarExchange steps;
};

// All groups of the context are its.
class FarGroups {
  public:
    FarGroups(ls_context& context, FarConnection& connection) : c_(context), connection_(connection) {}
    FarGroups(const FarGroups&) = delete;
    FarGroups& operator=(const FarGroups&) = delete;
    ~FarGroups();

    int start(const ls_exchange& exchange, ls_group** out);
    int test(FarGroup& group);
    // Goes when its last operation has: until then it is a group of the stand-in, too.
    void free(FarGroup* group);
    // Null: there is none, or no more.
    FarGroup* find(uint64_t far_id);
    // The stand-in is lost.
    void fail(const std::string& why);

  private:
    ls_context& c_;
    FarConnection& connection_;
    uint64_t last_id_ = 0;
};

}  // namespace longshore
