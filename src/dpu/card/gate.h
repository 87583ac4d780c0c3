// The standing service of a DPU (`longshored listen`): takes the connections of ranks, and of carriers of
// their tasks, and starts a stand-in or a guard, a process of its own, for each that says who it is and may
// come. One thread. What a stranger sends costs it some KB and a limited time, and other jobs nothing.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dpu/card/gate_config.h"
#include "dpu/card/gate_jobs.h"
#include "dpu/card/hello.h"
#include "dpu/session/stream.h"

namespace longshore {

class Gate {
  public:
    // In the new process, which is its job's user already: serves the rank, to which nothing was answered
    // yet. By the door come connections of the host's agent (a packet each, of one descriptor), likewise
    // unanswered. Returns the exit status.
    using StandIn = std::function<int(SessionStream, const SessionHello&, Fd door)>;
    // The same for a carrier of tasks, with task_folders of the configuration.
    using TaskGuard =
        std::function<int(SessionStream, const SessionTasks&, const std::vector<std::string>& folders)>;
    // At SIGHUP; false, and why: the old configuration stays. May be empty.
    using Reread = std::function<bool(GateConfig*, std::string*)>;

    Gate(GateConfig config, StandIn stand_in, Reread reread, TaskGuard task_guard = {});
    ~Gate();
    bool listen(std::string* error);
    uint16_t port() const { return port_; }
    // Until SIGTERM or SIGINT. Stand-ins that are there go on. Returns the exit status.
    int run();

  private:
    struct Connection;
    struct RefusalLog {
        uint64_t shown_ns = 0;
        uint64_t hidden = 0;
    };

    bool take_signals();
    bool turn_signals();
    void accept_all(const Fd& listener);
    void meet(Fd socket, const IpAddress& address);
    void turn(Connection& connection);
    void try_to_serve(Connection& connection);
    void try_waiting();
    std::string one_at_a_time() const;
    bool choose_user(Connection& connection, std::optional<uint32_t>* user);
    void pass_on(Connection& connection);
    void start_process(Connection& connection);
    void become_process(Connection& connection, std::optional<uint32_t> user, Fd door);
    void answer(Connection& connection, const SessionWelcome& welcome);
    void refuse(Connection& connection, const GateRefusal& refusal);
    void count_refusal(const IpAddress& address, const GateRefusal& refusal);
    void show_hidden_refusals();
    void reap();
    void read_config_again();
    void show_counters() const;
    int wait_ms() const;

    GateConfig config_;
    StandIn stand_in_;
    Reread reread_;
    TaskGuard task_guard_;
    uint16_t port_ = 0;
    std::vector<Fd> listeners_;
    Fd signals_;
    std::vector<std::unique_ptr<Connection>> connections_;
    GateJobs jobs_;
    std::map<pid_t, Fd> doors_;  // of stand-ins
    RefusalLog log_;
    uint64_t rest_until_ns_ = 0;  // no connection can be taken until then: there are no descriptors
    uint64_t accepted_ = 0, started_ = 0;
    std::array<uint64_t, kGateCauses> refused_{};
};

}  // namespace longshore
