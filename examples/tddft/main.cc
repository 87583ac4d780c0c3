// Real-time time-dependent density-functional theory with the communication of Octopus, as in Graham et al.,
// "Optimizing Application Performance With BlueField" (section IV.G).
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../abort_job.h"
#include "../threads.h"
#include "run.h"

namespace {

struct Row {
    const char* name;
    double (*seconds)(const Run&);
};

// Table III of the paper, and what is beside MPI.
constexpr Row kRows[] = {{"all communication", [](const Run& run) { return run.mpi.all(); }},
                         {"  MPI_Allgather", [](const Run& run) { return run.mpi.allgather; }},
                         {"  MPI_Waitall", [](const Run& run) { return run.mpi.waitall; }},
                         {"  MPI_Alltoall", [](const Run& run) { return run.mpi.alltoall; }},
                         {"  MPI_Allreduce", [](const Run& run) { return run.mpi.allreduce; }},
                         {"  other MPI", [](const Run& run) { return run.mpi.other; }},
                         {"computing", [](const Run& run) { return run.computing; }},
                         {"being late", [](const Run& run) { return run.late; }},
                         {"wall time", [](const Run& run) { return run.wall; }}};

double mean_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / double(values.size());
}

void print_times(const std::vector<Run>& runs) {
    fmt::print("{:<24}{:>12}{:>12}{:>12}\n", "s, mean of ranks", "mean", "least", "most");
    for (const Row& row : kRows) {
        std::vector<double> values;
        for (const Run& run : runs) values.push_back(row.seconds(run));
        fmt::print("{:<24}{:>12.4f}{:>12.4f}{:>12.4f}\n", row.name, mean_of(values),
                   *std::min_element(values.begin(), values.end()),
                   *std::max_element(values.begin(), values.end()));
    }
    double mpi = 0, wall = 0;
    for (const Run& run : runs) mpi += run.mpi.all(), wall += run.wall;
    fmt::print("share of MPI in the wall time: {:.1f} %\n", 100 * mpi / wall);
    if (!runs.front().one_clock) {
        fmt::print("the ranks are on several machines, so that their entries cannot be compared\n");
        return;
    }
    std::vector<double> avoidable, entries, exits;
    for (const Run& run : runs) {
        avoidable.insert(avoidable.end(), run.avoidable.begin(), run.avoidable.end());
        entries.insert(entries.end(), run.entry_spread.begin(), run.entry_spread.end());
        exits.insert(exits.end(), run.exit_spread.begin(), run.exit_spread.end());
    }
    fmt::print(
        "an allgather, ms: {:.3f} after its last rank has entered; entries {:.3f} apart, exits {:.3f}\n",
        1e3 * mean_of(avoidable), 1e3 * mean_of(entries), 1e3 * mean_of(exits));
}

nlohmann::json to_json(const Run& run) {
    nlohmann::json json = {{"wall", run.wall},
                           {"mpi",
                            {{"all", run.mpi.all()},
                             {"allgather", run.mpi.allgather},
                             {"waitall", run.mpi.waitall},
                             {"alltoall", run.mpi.alltoall},
                             {"allreduce", run.mpi.allreduce},
                             {"other", run.mpi.other}}},
                           {"computing", run.computing},
                           {"late", run.late},
                           {"checksum", fmt::format("{:016x}", run.checksum)}};
    if (run.one_clock) {
        json["allgather_avoidable"] = run.avoidable;
        json["entry_spread"] = run.entry_spread;
        json["exit_spread"] = run.exit_spread;
    }
    return json;
}

struct Verdict {
    Findings findings;
    std::vector<std::string> wrong;
};

Verdict judge(const std::vector<Run>& runs, const Options& options) {
    Verdict verdict;
    if (!options.pace.sleeps) {
        verdict.findings = check(runs.front().observed, options.physics);
        verdict.wrong = verdict.findings.wrong;
    }
    for (const Run& run : runs) {
        if (run.checksum != runs.front().checksum)
            verdict.wrong.push_back("runs differ in the bits of their results");
        if (run.wrong_words != 0)
            verdict.wrong.push_back(
                fmt::format("{} wrong words were received in allgathers", run.wrong_words));
    }
    return verdict;
}

void print_findings(const Verdict& verdict, const Options& options, std::uint64_t checksum) {
    const Findings& found = verdict.findings;
    if (!options.pace.sleeps)
        fmt::print("norm off by {:.1e}, energy by {:.1e} of it\n", found.norm_error, found.energy_drift);
    if (found.has_dipole)
        fmt::print(
            "dipole swings with {:.6f} {:.6f} {:.6f} along x, y, z; known {:.6f}; off its known path by "
            "{:.1e}\n",
            found.frequency[0], found.frequency[1], found.frequency[2], options.physics.omega,
            found.dipole_error);
    fmt::print("checksum: {:016x}\n", checksum);
    for (const std::string& sentence : verdict.wrong) fmt::print("FAILED: {}\n", sentence);
    if (verdict.wrong.empty()) fmt::print("all checks passed\n");
}

void write_json(const Options& options, int ranks, const Threads& threads, const std::vector<Run>& runs,
                const Verdict& verdict) {
    const Layout& layout = options.layout;
    nlohmann::json json = {
        {"problem", name_of(options.physics.problem)},
        {"points", layout.points},
        {"states", layout.states},
        {"ranks", ranks},
        {"grid", {layout.state_ranks, layout.domain_ranks}},
        {"threads", threads.count},
        {"threads_reason", threads.reason},
        {"steps", options.steps},
        {"allgathers", options.allgathers},
        {"sleeps", options.pace.sleeps},
        {"compute_seconds", options.pace.compute_seconds},
        {"allgatherv", options.allgatherv},
        {"allgather_bytes", std::max(options.pace.allgather_bytes, layout.local_points() * sizeof(double))},
        {"late_base_seconds", options.pace.lateness.base_seconds},
        {"late_chance", options.pace.lateness.chance},
        {"seed", options.pace.lateness.seed},
        {"wrong", verdict.wrong},
        {"passed", verdict.wrong.empty()}};
    for (const Run& run : runs) json["runs"].push_back(to_json(run));
    if (!options.pace.sleeps) {
        const Findings& found = verdict.findings;
        json["norm_error"] = found.norm_error;
        json["energy_drift"] = found.energy_drift;
        if (found.has_dipole)
            json["dipole"] = {{"frequency", found.frequency}, {"error", found.dipole_error}};
        for (const Observed& seen : runs.front().observed)
            json["observed"].push_back(
                {{"time", seen.time}, {"energy", seen.energy}, {"dipole", seen.dipole}});
    }
    std::ofstream file(options.json);
    file << json.dump(1) << '\n';
    file.close();
    if (!file) throw std::runtime_error("cannot write " + options.json);
}

int run(Options& options, int rank, int ranks) {
    choose_grid(options.layout, ranks);
    const std::string problem = problem_of(options.layout, ranks);
    if (!problem.empty()) {
        if (rank == 0) fmt::print(stderr, "tddft: {}\n", problem);
        return 2;
    }
    const Threads threads = choose_threads();  // of rank 0 they are shown
    Exchanges exchanges(options.layout, options.allgatherv);
    Propagator propagator(options.layout, options.physics, options.pace, exchanges);
    std::vector<Run> runs;
    for (int repeat = 0; repeat < options.repeats; ++repeat)
        runs.push_back(run_once(propagator, exchanges, options, repeat));
    const Verdict verdict = judge(runs, options);
    if (rank != 0) return verdict.wrong.empty() ? 0 : 1;
    const Layout& layout = options.layout;
    fmt::print(
        "tddft {}, {}x{}x{} points, {} states, {} ranks as {}x{}, {} threads each ({}), {} steps, {} "
        "allgathers, "
        "{} runs\n",
        name_of(options.physics.problem), layout.points[0], layout.points[1], layout.points[2], layout.states,
        ranks, layout.state_ranks, layout.domain_ranks, threads.count, threads.reason, options.steps,
        options.allgathers, options.repeats);
    if (options.pace.sleeps)
        fmt::print("ranks sleep where they would compute, {:g} ms a step\n",
                   1e3 * options.pace.compute_seconds);
    print_times(runs);
    print_findings(verdict, options, runs.front().checksum);
    if (!options.json.empty()) write_json(options, ranks, threads, runs, verdict);
    return verdict.wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    abort_job_on_exceptions("tddft");
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Options options;
    int status = parse(argc, argv, rank == 0, options);
    if (status == -1) status = run(options, rank, ranks);
    MPI_Finalize();
    return status;
}
