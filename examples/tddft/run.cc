#include "run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

namespace {

// CLOCK_MONOTONIC counts from the start of a machine, so only ranks of one start can compare it.
bool on_one_machine() {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    const auto hash = std::uint64_t(std::hash<std::string>{}(id)) >> 1;
    std::uint64_t both[2] = {hash, ~hash};
    MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return both[0] == ~both[1];
}

std::vector<double> over_ranks(std::vector<double> values, MPI_Op op) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), int(values.size()), MPI_DOUBLE, op, MPI_COMM_WORLD);
    return values;
}

void compare_entries(const Exchanges& exchanges, int ranks, Run& run) {
    run.one_clock = on_one_machine();
    if (!run.one_clock) return;
    const auto& entries = exchanges.allgather_entries();
    const auto& exits = exchanges.allgather_exits();
    const auto first_entry = over_ranks(entries, MPI_MIN), last_entry = over_ranks(entries, MPI_MAX);
    const auto first_exit = over_ranks(exits, MPI_MIN), last_exit = over_ranks(exits, MPI_MAX);
    std::vector<double> mine(exits.size());
    for (std::size_t i = 0; i < exits.size(); ++i) mine[i] = (exits[i] - last_entry[i]) / ranks;
    run.avoidable = over_ranks(mine, MPI_SUM);
    for (std::size_t i = 0; i < exits.size(); ++i) {
        run.entry_spread.push_back(last_entry[i] - first_entry[i]);
        run.exit_spread.push_back(last_exit[i] - first_exit[i]);
    }
}

void show_progress(const Options& options, int repeat, int step) {
    const double done = (repeat + double(step) / options.steps) / options.repeats;
    const int filled = int(30 * done);
    fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {:3.0f} %  run {} of {}, step {}", "", filled, "",
               30 - filled, 100 * done, repeat + 1, options.repeats, step);
    if (repeat + 1 == options.repeats && step == options.steps) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
}

}  // namespace

Run run_once(Propagator& propagator, Exchanges& exchanges, const Options& options, int repeat) {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const bool shows = options.progress && rank == 0 && isatty(STDERR_FILENO);
    propagator.start();
    MPI_Barrier(MPI_COMM_WORLD);
    exchanges.begin();
    propagator.begin();
    Run run;
    const double start = seconds_now();
    for (int step = 0; step < options.steps; ++step) {
        const auto until = [&](int steps) {
            return std::int64_t(steps) * options.allgathers / options.steps;
        };
        run.observed.push_back(propagator.step(int(until(step + 1) - until(step))));
        if (shows) show_progress(options, repeat, step + 1);
    }
    const double wall = seconds_now() - start;
    propagator.finish();
    const MpiTimes& mpi = exchanges.times();
    std::vector<double> mean = {mpi.allgather,
                                mpi.waitall,
                                mpi.alltoall,
                                mpi.allreduce,
                                mpi.other,
                                propagator.late_seconds(),
                                wall - mpi.all() - propagator.late_seconds()};
    for (double& value : mean) value /= ranks;
    mean = over_ranks(mean, MPI_SUM);
    run.mpi = {mean[0], mean[1], mean[2], mean[3], mean[4]};
    run.late = mean[5];
    run.computing = mean[6];
    run.wall = over_ranks({wall}, MPI_MAX)[0];
    compare_entries(exchanges, ranks, run);
    run.checksum = propagator.checksum();
    run.wrong_words = std::uint64_t(over_ranks({double(propagator.wrong_words())}, MPI_SUM)[0]);
    return run;
}
