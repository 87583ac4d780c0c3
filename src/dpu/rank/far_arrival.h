// How a rank comes to its DPU: the ranks of a machine find their first, which starts the agent; all connect
// to the DPU, and make the exchanges that their stand-ins ask for until their job is there.
#pragma once

#include "dpu/rank/agent_client.h"
#include "dpu/rank/far_connection.h"
#include "dpu/rank/far_exchange.h"
#include "dpu/rank/far_neighbours.h"

namespace longshore {

class FarArrival {
  public:
    FarArrival(ls_context& context, FarConnection& connection, AgentClient& agent, FarNeighbours& neighbours)
        : c_(context), connection_(connection), agent_(agent), neighbours_(neighbours) {}
    // The first exchange is under way when this returns LS_OK.
    int start();
    int test();
    // Of the job; asked for by the stand-in while in_session().
    FarExchange& steps() { return steps_; }
    // The stand-in is making the job with the others'.
    bool in_session() const { return state_ == State::kSession; }
    bool is_over() const { return state_ == State::kReady; }
    // The connection is there, or has been.
    bool is_connected() const { return state_ >= State::kSession; }
    // This rank can read the memory of all ranks of its machine, and copies what is handed over to it.
    bool copies() const { return copies_; }
    // Where this rank's pools of tasks are opened: at the agent.
    void find_task_door(ls_task_door* out) const;

  private:
    enum class State : uint8_t { kIdentity, kAgent, kAgents, kConnecting, kSession, kReady, kFailed };
    struct Identity;
    struct AgentPlace;

    int step();
    int fail(const std::string& reason);
    void place_ranks();
    void start_agent();
    int share_agent();
    int connect();
    int wait_for_connection();
    void say_hello();
    int finish_session();

    ls_context& c_;
    FarConnection& connection_;
    AgentClient& agent_;
    FarNeighbours& neighbours_;
    bool copies_ = false;
    State state_ = State::kIdentity;
    uint64_t machine_ = 0, deadline_ns_ = 0;
    uint32_t machine_first_ = 0;                     // rank
    bool leads_ = false;                             // this is that rank
    uint32_t machine_rank_ = 0, machine_ranks_ = 0;  // which of the machine's this is, and how many it has
    SocketName agent_name_;
    Token agent_token_{};
    uint64_t job_ = 0;
    Token token_{};
    std::vector<std::byte> agent_address_;
    ExportProbe probe_;
    std::string no_probe_;
    Fd connecting_;
    FarExchange steps_;
};

}  // namespace longshore
