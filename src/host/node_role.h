// What a rank on a node and the stand-in of a rank have in common: an engine in the node's shared memory,
// groups that the node's supervisor makes, operations (node_operations.h).
#pragma once

#include "host/node_operations.h"
#include "host/role.h"

namespace longshore {

class NodeRole : public Role {
  public:
    int start_job() override;
    int test_job() override;
    bool leave_job(bool is_forked) override;

    int start_group(const ls_exchange& exchange, ls_group** out) override;
    int test_group(ls_group& group) override;
    void free_group(ls_group* group) override;

    int test_operation(ls_operation& operation, int* moved) override;
    void free_operation(ls_operation* operation) override;
    void describe(const ls_operation& operation, char* line, size_t bytes) override;
    void advance() override;

    void sleep(uint64_t timeout_ns) override;
    void begin_sleep(ls_sleeper* sleeper) const override;

    uint32_t services(ls_service_stats* out, uint32_t max) override;
    void rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const override;

  protected:
    // `buffers` lives as long as this.
    NodeRole(ls_context& context, bool moves_blocks, RankBuffers& buffers)
        : Role(moves_blocks), c_(context), operations_(context, buffers) {}

    ls_context& c_;
    NodeOperations operations_;
};

}  // namespace longshore
