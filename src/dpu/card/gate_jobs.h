// The jobs that have stand-ins here, and who may join them. The first rank of a job says what its token and
// size are; the last stand-in that goes takes the job with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dpu/card/gate_config.h"
#include "dpu/card/gate_refusal.h"
#include "dpu/session/session.h"

namespace longshore {

class GateJobs {
  public:
    // Why this rank may not join; nothing: it may. Who does not have the token learns nothing else of the
    // job. `one_at_a_time`: why no two jobs are served at once; empty: they are.
    std::optional<GateRefusal> refuse(const SessionHello& hello, const IpAddress& address,
                                      const GateConfig& config, const std::string& one_at_a_time) const;
    // The same for a carrier of tasks, whose job must be there.
    std::optional<GateRefusal> refuse(const SessionTasks& tasks, const GateConfig& config) const;
    // The same for an agent that is to copy for a rank, which must be there.
    std::optional<GateRefusal> refuse(const SessionCopier& copier) const;
    // The stand-in of the rank of one that was not refused.
    pid_t stand_in_of(const SessionCopier& copier) const;
    // The guard of one that was not refused.
    void add_guard(pid_t guard, uint64_t job);
    // Of jobs that are not there any more.
    std::vector<pid_t> useless_guards() const;
    // A rank that was not refused. `user`: as whom its job runs; nothing: as the service's own. True: it is
    // the first of its job.
    bool add(pid_t stand_in, const SessionHello& hello, const IpAddress& address,
             std::optional<uint32_t> user);
    // A process has ended. Nothing: it is no stand-in, or others of its job go on; else a line about the job.
    std::optional<std::string> remove(pid_t stand_in, int status);

    // The other stand-ins of its job, and the guards of its tasks.
    std::vector<pid_t> others_of(pid_t stand_in) const;

    // Of the job, which is there, and of all jobs.
    bool has(uint64_t job) const { return jobs_.contains(job); }
    std::optional<uint32_t> user_of(uint64_t job) const { return jobs_.at(job).user; }
    std::set<uint32_t> users() const;

    size_t jobs() const { return jobs_.size(); }
    size_t ranks() const { return stand_ins_.size(); }
    size_t ranks_of(const IpAddress& address) const;

  private:
    struct Job {
        std::array<uint8_t, 16> token{};
        std::optional<uint32_t> user;
        IpAddress opened_from;
        uint32_t size = 0, ranks_ever = 0, failed = 0;
        std::string first_failure;
        std::vector<uint32_t> ranks;       // that are here, sorted
        std::vector<IpAddress> addresses;  // from which ranks came
    };
    struct StandIn {
        uint64_t job = 0;
        uint32_t rank = 0;
        IpAddress address;
    };
    std::map<uint64_t, Job> jobs_;
    std::map<pid_t, StandIn> stand_ins_;
    std::map<pid_t, uint64_t> guards_;  // of which job
};

std::string job_name(uint64_t job);

}  // namespace longshore
