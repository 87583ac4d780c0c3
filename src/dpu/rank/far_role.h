// A rank whose operations are carried by a DPU. A stand-in there (src/dpu) does what this library otherwise
// does in the rank's own process; what is left here is to ask for it, to make the exchanges that it needs,
// and to have the buffers where the network can reach them. Everything arrives by one connection; who waits
// sleeps on it.
#pragma once

#include "dpu/rank/far_arrival.h"
#include "dpu/rank/far_operations.h"
#include "host/role.h"

namespace longshore {

class FarRole final : public Role {
  public:
    explicit FarRole(ls_context& context)
        : Role(false),
          c_(context),
          connection_(context),
          arrival_(context, connection_, agent_, neighbours_),
          groups_(context, connection_),
          operations_(context, connection_, agent_, neighbours_) {}

    int start_job() override { return arrival_.start(); }
    int test_job() override;
    bool leave_job(bool is_forked) override;

    int start_group(const ls_exchange& exchange, ls_group** out) override;
    int test_group(ls_group& group) override;
    void free_group(ls_group* group) override { groups_.free(static_cast<FarGroup*>(group)); }

    int start_operation(ls_group& group, const ls_arguments& arguments, ls_operation** out) override;
    int test_operation(ls_operation& operation, int* moved) override;
    void free_operation(ls_operation* operation) override;
    void describe(const ls_operation& operation, char* line, size_t bytes) override;

    void advance() override { turn(); }

    void begin_wait() override { ++waits_; }
    void end_wait() override;
    void sleep(uint64_t timeout_ns) override { connection_.sleep(timeout_ns); }
    void begin_sleep(ls_sleeper* sleeper) const override { sleeper->fd = connection_.stream().fd(); }

    uint32_t services(ls_service_stats* out, uint32_t max) override;
    void rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const override;
    ls_moved_bytes copied_on_host() const override;
    bool find_far_task_door(ls_task_door* out) const override {
        if (arrival_.is_over()) arrival_.find_task_door(out);
        return arrival_.is_over();
    }
    const char* memory_reach() const override { return c_.aliases ? "dpu-alias" : "dpu"; }

  private:
    // What has arrived, and what waits to be sent or posted.
    void turn();
    bool hear(SessionKind kind, std::span<const std::byte> body);
    bool hear_ready(const SessionReady& ready);
    void lose(const std::string& why);

    ls_context& c_;
    AgentClient agent_;
    FarNeighbours neighbours_;
    FarConnection connection_;
    FarArrival arrival_;
    FarGroups groups_;
    FarOperations operations_;
    uint32_t waits_ = 0;  // begun and not ended
    bool welcomed_ = false, stats_there_ = false;
    std::vector<ls_service_stats> stats_;
};

}  // namespace longshore
