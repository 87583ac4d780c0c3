#include "dpu/card/gate_jobs.h"

#include <stdio.h>
#include <sys/wait.h>

#include <algorithm>

#include "fabric/shm/socket.h"

namespace longshore {
namespace {

constexpr size_t kAddressesShownMax = 8;

GateRefusal over_limit(const char* name, uint32_t limit, const char* what) {
    return {GateCause::kLimit,
            std::string(name) + " of the DPU's service is " + std::to_string(limit) + ": " + what};
}

std::string show_end(int status) {
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    return "exit status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

const char* gate_cause_name(GateCause cause) {
    constexpr const char* kNames[kGateCauses] = {"network", "limit", "slow",  "stranger", "version",
                                                 "broken",  "value", "token", "rank",     "no process"};
    return kNames[static_cast<size_t>(cause)];
}

std::string job_name(uint64_t job) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(job));
    return text;
}

std::optional<GateRefusal> GateJobs::refuse(const SessionHello& hello, const IpAddress& address,
                                            const GateConfig& config,
                                            const std::string& one_at_a_time) const {
    const auto found = jobs_.find(hello.job);
    if (found == jobs_.end()) {
        if (jobs_.size() >= config.jobs_max)
            return over_limit("jobs_max", config.jobs_max, "so many other jobs are there");
        const auto opened_there = std::count_if(
            jobs_.begin(), jobs_.end(), [&](const auto& job) { return job.second.opened_from == address; });
        if (opened_there >= static_cast<ptrdiff_t>(config.jobs_per_address_max))
            return over_limit("jobs_per_address_max", config.jobs_per_address_max,
                              "so many jobs of this address are there");
        if (!jobs_.empty() && !one_at_a_time.empty())
            return GateRefusal{
                GateCause::kLimit,
                "the DPU's service has a job already and serves one at a time: " + one_at_a_time, true};
        return std::nullopt;
    }
    const Job& job = found->second;
    if (!same_token(job.token, hello.token)) return GateRefusal{GateCause::kToken, "not this job's token"};
    if (job.size != hello.size)
        return GateRefusal{GateCause::kRank, "the job has " + std::to_string(job.size) + " ranks, not " +
                                                 std::to_string(hello.size)};
    if (std::binary_search(job.ranks.begin(), job.ranks.end(), hello.rank))
        return GateRefusal{GateCause::kRank,
                           "rank " + std::to_string(hello.rank) + " of the job is there already"};
    if (job.ranks.size() >= config.ranks_per_job_max)
        return over_limit("ranks_per_job_max", config.ranks_per_job_max,
                          "so many ranks of the job are there");
    return std::nullopt;
}

// Who does not have the token is not told whether the job is there.
std::optional<GateRefusal> GateJobs::refuse(const SessionTasks& tasks, const GateConfig& config) const {
    const auto found = jobs_.find(tasks.job);
    if (found == jobs_.end() || !same_token(found->second.token, tasks.token))
        return GateRefusal{GateCause::kToken, "no such job, or not its token"};
    if (config.task_folders.empty())
        return GateRefusal{GateCause::kValue,
                           "task_folders of the DPU's service is not set: it loads no plug-ins"};
    const auto there = std::count_if(guards_.begin(), guards_.end(),
                                     [&](const auto& one) { return one.second == tasks.job; });
    if (there >= static_cast<ptrdiff_t>(config.task_processes_per_job_max))
        return over_limit("task_processes_per_job_max", config.task_processes_per_job_max,
                          "so many task processes of the job are there");
    return std::nullopt;
}

pid_t GateJobs::stand_in_of(const SessionCopier& copier) const {
    const auto found = std::find_if(stand_ins_.begin(), stand_ins_.end(), [&](const auto& one) {
        return one.second.job == copier.job && one.second.rank == copier.rank;
    });
    return found != stand_ins_.end() ? found->first : 0;
}

std::optional<GateRefusal> GateJobs::refuse(const SessionCopier& copier) const {
    const auto found = jobs_.find(copier.job);
    if (found == jobs_.end() || !same_token(found->second.token, copier.token))
        return GateRefusal{GateCause::kToken, "no such job, or not its token"};
    if (stand_in_of(copier) == 0) return GateRefusal{GateCause::kRank, "no such rank of the job is here"};
    return std::nullopt;
}

void GateJobs::add_guard(pid_t guard, uint64_t job) {
    guards_[guard] = job;
}

std::vector<pid_t> GateJobs::useless_guards() const {
    std::vector<pid_t> useless;
    for (const auto& [pid, job] : guards_)
        if (!jobs_.contains(job)) useless.push_back(pid);
    return useless;
}

bool GateJobs::add(pid_t stand_in, const SessionHello& hello, const IpAddress& address,
                   std::optional<uint32_t> user) {
    stand_ins_[stand_in] = {hello.job, hello.rank, address};
    const auto [at, first] = jobs_.try_emplace(hello.job);
    Job& job = at->second;
    if (first) {
        job.token = hello.token;
        job.size = hello.size;
        job.user = user;
        job.opened_from = address;
    }
    ++job.ranks_ever;
    job.ranks.insert(std::lower_bound(job.ranks.begin(), job.ranks.end(), hello.rank), hello.rank);
    if (std::find(job.addresses.begin(), job.addresses.end(), address) == job.addresses.end() &&
        job.addresses.size() <= kAddressesShownMax)
        job.addresses.push_back(address);
    return first;
}

std::optional<std::string> GateJobs::remove(pid_t stand_in, int status) {
    guards_.erase(stand_in);
    const auto found = stand_ins_.find(stand_in);
    if (found == stand_ins_.end()) return std::nullopt;
    const StandIn gone = found->second;
    stand_ins_.erase(found);
    const auto at = jobs_.find(gone.job);
    Job& job = at->second;
    job.ranks.erase(std::lower_bound(job.ranks.begin(), job.ranks.end(), gone.rank));
    if (status != 0 && job.failed++ == 0)
        job.first_failure = "rank " + std::to_string(gone.rank) + ": " + show_end(status);
    if (!job.ranks.empty()) return std::nullopt;
    std::string line = "job " + job_name(gone.job) + " closed: " + std::to_string(job.ranks_ever) + " of " +
                       std::to_string(job.size) + " ranks, from";
    for (size_t i = 0; i < std::min(job.addresses.size(), kAddressesShownMax); ++i)
        line += (i == 0 ? " " : ", ") + show(job.addresses[i]);
    if (job.addresses.size() > kAddressesShownMax) line += " and others";
    if (job.failed != 0)
        line +=
            "; " + std::to_string(job.failed) + " of their stand-ins failed, first of " + job.first_failure;
    jobs_.erase(at);
    return line;
}

std::vector<pid_t> GateJobs::others_of(pid_t stand_in) const {
    std::vector<pid_t> others;
    const auto found = stand_ins_.find(stand_in);
    if (found == stand_ins_.end()) return others;
    for (const auto& [pid, one] : stand_ins_)
        if (pid != stand_in && one.job == found->second.job) others.push_back(pid);
    for (const auto& [pid, job] : guards_)
        if (job == found->second.job) others.push_back(pid);
    return others;
}

std::set<uint32_t> GateJobs::users() const {
    std::set<uint32_t> users;
    for (const auto& [id, job] : jobs_)
        if (job.user) users.insert(*job.user);
    return users;
}

size_t GateJobs::ranks_of(const IpAddress& address) const {
    return static_cast<size_t>(std::count_if(stand_ins_.begin(), stand_ins_.end(),
                                             [&](const auto& one) { return one.second.address == address; }));
}

}  // namespace longshore
