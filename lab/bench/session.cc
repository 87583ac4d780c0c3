#include "bench/session.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include <cstdio>

#include "bench/copy_limit.h"

namespace longshore::bench {

Hooks::Hooks() {
    get_counters_ = reinterpret_cast<decltype(get_counters_)>(dlsym(RTLD_DEFAULT, "longshore_get_counters"));
    set_ = reinterpret_cast<decltype(set_)>(dlsym(RTLD_DEFAULT, "longshore_set"));
    get_times_ = reinterpret_cast<decltype(get_times_)>(dlsym(RTLD_DEFAULT, "longshore_get_times"));
}

bool Hooks::offload_on() const {
    longshore_counters unused{};
    return get_counters_ && get_counters_(&unused) == 0;
}

longshore_counters Hooks::counters() const {
    longshore_counters result{};
    if (get_counters_) get_counters_(&result);
    return result;
}

bool Hooks::set_cooperative(bool on) const {
    return set_ && set_("cooperative", on ? "on" : "off") == 0;
}

bool Hooks::set_breakdown(bool on) const {
    return set_ && get_times_ && set_("breakdown", on ? "on" : "off") == 0;
}

longshore_times Hooks::times() const {
    longshore_times result{};
    if (get_times_) get_times_(&result);
    return result;
}

bool Hooks::set_algorithm(const Collective& collective, const char* name) const {
    const std::string setting =
        fmt::format("{}_algorithm", collective.nonblocking ? collective.name + 1 : collective.name);
    return set_ && set_(setting.c_str(), name) == 0;
}

std::vector<Contender> Session::contenders_for(const Collective& collective) const {
    std::vector<Contender> list;
    for (const Contender& contender : contenders) {
        if (contender.is_limit && !LimitExchange::serves(collective)) continue;
        const char* algorithm = contender.algorithm;
        // An older library knows no algorithms, and needs none where none is forced.
        const bool forced = algorithm && *algorithm;
        if (!any_rank(forced && !hooks.set_algorithm(collective, algorithm))) list.push_back(contender);
    }
    return list;
}

void Session::use(const Contender& contender, const Collective& collective) const {
    if (contender.algorithm) hooks.set_algorithm(collective, contender.algorithm);
}

void Session::barrier() const {
    if (!crowded) {
        PMPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    MPI_Request everybody = MPI_REQUEST_NULL;
    PMPI_Ibarrier(MPI_COMM_WORLD, &everybody);
    for (int done = 0; PMPI_Test(&everybody, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
        sched_yield();
}

Session make_session(const Options& options, const Machine& machine) {
    Session session{options, 0, 1, {}, {}, false, machine.ranks_here > machine.cores, {}};
    PMPI_Comm_rank(MPI_COMM_WORLD, &session.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &session.ranks);
    const bool present = !any_rank(!session.hooks.present());
    const bool on = present && !any_rank(!session.hooks.offload_on());
    const bool wanted = options.longshore || !options.algorithms.empty();
    if (wanted && !present) session.note = "Longshore is not preloaded: only the host is measured";
    if (wanted && present && !on)
        session.note = "Longshore is preloaded, but offload is off for this job: only the host is measured";
    const bool limit = options.copy_limit && machine.nodes == 1;
    if (options.copy_limit && !limit)
        session.note = "the ranks are on several machines: copy-limit is left out";
    if (options.host || (!on && !limit)) session.contenders.push_back({"host", &kHostCalls, false});
    if (options.longshore && on) {
        session.contenders.push_back({"longshore", &kInterposedCalls, true, ""});
    }
    if (limit) session.contenders.push_back({"copy-limit", &kHostCalls, false, nullptr, true});
    if (on) {
        for (const std::string& name : options.algorithms)
            session.contenders.push_back({name.c_str(), &kInterposedCalls, name != "mpi", name.c_str()});
    }
    if (wanted && on) {
        session.cooperative_can_change = !any_rank(!session.hooks.set_cooperative(options.cooperative));
        if (!session.cooperative_can_change)
            session.note = "Longshore does not let 'cooperative' be changed: t_sp is not measured";
    }
    return session;
}

std::vector<double> max_over_ranks(const std::vector<double>& mine) {
    std::vector<double> result(mine.size());
    PMPI_Reduce(mine.data(), result.data(), int(mine.size()), MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return result;
}

std::vector<double> mean_over_ranks(const std::vector<double>& mine) {
    int ranks = 1;
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::vector<double> result(mine.size());
    PMPI_Reduce(mine.data(), result.data(), int(mine.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (double& value : result) value /= ranks;
    return result;
}

double sum_over_ranks(double mine) {
    double result = 0;
    PMPI_Reduce(&mine, &result, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return result;
}

double from_root(double value) {
    PMPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return value;
}

bool any_rank(bool mine) {
    int value = mine ? 1 : 0, result = 0;
    PMPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return result != 0;
}

bool report_failure(const Session& session, const char* message) {
    int mine = message ? session.rank : session.ranks, first = 0;
    PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == session.rank) {
        fmt::print(stderr, "\nlongshore-bench: {}\n", message);  // off the line of a progress bar
        std::fflush(stderr);
    }
    return first < session.ranks;
}

}  // namespace longshore::bench
