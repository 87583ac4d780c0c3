// Two-dimensional gas dynamics on a moving mesh, after PENNANT, whose computing can in parts be handed to
// processes beside the ranks, as in Williams et al., "Exploring Challenges Associated with Employing
// SmartNICs as General-Purpose HPC Accelerators".
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../abort_job.h"
#include "../threads.h"
#include "checks.h"
#include "chooser.h"
#include "hydro.h"
#include "mpmd.h"
#include "options.h"
#include "tasks.h"

namespace {

constexpr double kZonesMax = 2e8;  // of a rank: numbers of corners are 32 bits wide

unsigned kernels_of(int variant) {
    unsigned kernels = 0;
    for (unsigned kernel = 0; kernel < kKernels; ++kernel)
        if (kKernelTable[kernel].version >= variant) kernels |= 1U << kernel;
    return kernels;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// A line on a terminal: how far the run has come.
class Progress {
  public:
    Progress(bool is_on) : is_on_(is_on && isatty(STDERR_FILENO)) {}
    ~Progress() {
        if (is_on_) fmt::print(stderr, "\r\x1b[K");
    }
    void show(const Hydro& hydro, const Options& options) {
        const double now = MPI_Wtime();
        if (!is_on_ || now - shown_ < 0.2) return;
        shown_ = now;
        double done = hydro.time() / options.problem.time_end;
        if (options.cycles_max > 0)
            done = std::max(done, double(hydro.cycles()) / double(options.cycles_max));
        const int filled = int(30 * std::min(done, 1.0));
        fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {:3.0f} %  cycle {}  time {:.4g}", "", filled, "",
                   30 - filled, 100 * done, hydro.cycles(), hydro.time());
        std::fflush(stderr);
    }

  private:
    bool is_on_;
    double shown_ = 0;
};

// What was measured in the cycles that count. Of several ranks: the slowest in each cycle; of kernels
// medians, of the rank with the longest times and of that with the least slack.
struct Measured {
    double all_cycles = 0;  // the sum of all, those that do not count, too
    std::vector<double> cycles;
    std::array<KernelTimes, kKernels> kernels;
};

class Recorder {
  public:
    void take(const Hydro& hydro, double seconds) {
        cycles_.push_back(seconds);
        for (std::size_t kernel = 0; kernel < kKernels; ++kernel)
            kernels_[kernel].push_back(hydro.times()[kernel]);
    }
    void count(double seconds) { all_ += seconds; }
    Measured over_ranks(MPI_Comm comm) const {
        Measured result;
        MPI_Allreduce(&all_, &result.all_cycles, 1, MPI_DOUBLE, MPI_MAX, comm);
        result.cycles.resize(cycles_.size());
        MPI_Allreduce(cycles_.data(), result.cycles.data(), int(cycles_.size()), MPI_DOUBLE, MPI_MAX, comm);
        for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
            KernelTimes& times = result.kernels[kernel];
            times.submit = one(kernel, &KernelTimes::submit, MPI_MAX, comm);
            times.wait = one(kernel, &KernelTimes::wait, MPI_MAX, comm);
            times.run = one(kernel, &KernelTimes::run, MPI_MAX, comm);
            times.round_trip = one(kernel, &KernelTimes::round_trip, MPI_MAX, comm);
            times.slack = one(kernel, &KernelTimes::slack, MPI_MIN, comm);
        }
        return result;
    }

  private:
    double one(std::size_t kernel, double KernelTimes::*member, MPI_Op op, MPI_Comm comm) const {
        std::vector<double> values;
        for (const KernelTimes& times : kernels_[kernel]) values.push_back(times.*member);
        double value = median(values);
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, comm);
        return value;
    }
    double all_ = 0;
    std::vector<double> cycles_;
    std::array<std::vector<KernelTimes>, kKernels> kernels_;
};

struct Report {
    int ranks, ranks_x, ranks_y, processes;
    Threads threads;  // of rank 0
    std::int64_t zones, cycles;
    double time;
    Energies energies_first, energies;
    Findings findings;
    Measured measured;
    unsigned handed;
    std::array<double, kKernels>
        bytes_per_zone;      // given and taken in a cycle, of a kernel that is handed over
    double copied_per_zone;  // of that, and of constants, what was copied in a cycle
    int trial_cycles;        // of --offload auto, and how much longer they took than with nothing handed over
    double trial_seconds;
    std::vector<std::string> reasons;
};

void print_place(const char* name, const std::optional<Place>& place) {
    if (place)
        fmt::print("{} at {:.4f}, known {:.4f} (allowed {:.4f} off){}\n", name, place->found, place->known,
                   place->error_max, place->is_right() ? "" : ": FAILED");
}

void print(const Options& options, const Report& report) {
    const Problem& problem = options.problem;
    fmt::print("hydro {}, {}x{} zones, {} ranks as {}x{}, {} threads each ({}), offload {}", problem.name,
               problem.zones_x, problem.zones_y, report.ranks, report.ranks_x, report.ranks_y,
               report.threads.count, report.threads.reason, name_in(kWays, options.way));
    if (options.way != Way::kNone) fmt::print(", variant {}", name_in(kVariants, options.variant));
    fmt::print("\ncycles {}, time {:.6g}\n", report.cycles, report.time);
    for (const std::string& reason : report.reasons) fmt::print("auto: {}\n", reason);
    if (!report.measured.cycles.empty())
        fmt::print("cycle, ms: median {:.4f}  ({:.1f} ns a zone and rank)\n",
                   1e3 * median(report.measured.cycles),
                   1e9 * median(report.measured.cycles) * report.ranks / double(report.zones));
    fmt::print("{:<12}{:>10}{:>12}{:>10}{:>10}{:>12}{:>10}{:>14}\n", "kernel, ms", "handed", "submit", "wait",
               "run", "round trip", "slack", "bytes a zone");
    for (unsigned kernel = 0; kernel < kKernels; ++kernel) {
        const KernelTimes& times = report.measured.kernels[kernel];
        const bool handed = report.handed >> kernel & 1;
        fmt::print("  {:<10}{:>10}{:>12.4f}{:>10.4f}{:>10.4f}{:>12.4f}{:>10.4f}{:>14.1f}\n",
                   kKernelTable[kernel].name, handed ? "yes" : "no", 1e3 * times.submit, 1e3 * times.wait,
                   1e3 * times.run, 1e3 * times.round_trip, 1e3 * times.slack,
                   handed ? report.bytes_per_zone[kernel] : 0.0);
    }
    if (options.way != Way::kNone)
        fmt::print("copied: {:.1f} bytes a zone and cycle; processes beside rank 0: {}\n",
                   report.copied_per_zone, report.processes);
    fmt::print("energy: internal {:.9g}, kinetic {:.9g}, total {:.12g}, off by {:.1e} of it\n",
               report.energies.internal, report.energies.kinetic, report.energies.total(),
               report.findings.energy_drift);
    print_place("contact", report.findings.contact);
    print_place("shock", report.findings.shock);
    fmt::print("checksum: {:016x}\n", report.findings.checksum);
    fmt::print("{}\n", report.findings.passed() ? "all checks passed" : "FAILED: see above");
}

nlohmann::json to_json(const std::optional<Place>& place) {
    if (!place) return nullptr;
    return {{"found", place->found}, {"known", place->known}, {"error_max", place->error_max}};
}

void write_json(const Options& options, const Report& report) {
    const Problem& problem = options.problem;
    nlohmann::json kernels;
    for (unsigned kernel = 0; kernel < kKernels; ++kernel) {
        const KernelTimes& times = report.measured.kernels[kernel];
        kernels[kKernelTable[kernel].name] = {{"handed_over", bool(report.handed >> kernel & 1)},
                                              {"submit_seconds", times.submit},
                                              {"wait_seconds", times.wait},
                                              {"run_seconds", times.run},
                                              {"round_trip_seconds", times.round_trip},
                                              {"slack_seconds", times.slack},
                                              {"bytes_per_zone", report.bytes_per_zone[kernel]}};
    }
    const nlohmann::json result = {{"problem", problem.name},
                                   {"zones", {problem.zones_x, problem.zones_y}},
                                   {"grid", {report.ranks_x, report.ranks_y}},
                                   {"ranks", report.ranks},
                                   {"threads", report.threads.count},
                                   {"threads_reason", report.threads.reason},
                                   {"offload", name_in(kWays, options.way)},
                                   {"variant", name_in(kVariants, options.variant)},
                                   {"cycles", report.cycles},
                                   {"time", report.time},
                                   {"cycle_seconds", report.measured.cycles},
                                   {"all_cycles_seconds", report.measured.all_cycles},
                                   {"trial_cycles", report.trial_cycles},
                                   {"trial_seconds", report.trial_seconds},
                                   {"kernels", kernels},
                                   {"copied_bytes_per_zone", report.copied_per_zone},
                                   {"processes_beside", report.processes},
                                   {"reasons", report.reasons},
                                   {"energy",
                                    {{"internal", report.energies.internal},
                                     {"kinetic", report.energies.kinetic},
                                     {"first_total", report.energies_first.total()},
                                     {"drift", report.findings.energy_drift}}},
                                   {"contact", to_json(report.findings.contact)},
                                   {"shock", to_json(report.findings.shock)},
                                   {"checksum", fmt::format("{:016x}", report.findings.checksum)},
                                   {"passed", report.findings.passed()}};
    std::ofstream file(options.json);
    file << result.dump(2) << '\n';
    if (!file) throw std::runtime_error("cannot write " + options.json);
}

void advance(Hydro& hydro, const Options& options, Chooser* chooser, Recorder& recorder, int rank) {
    Progress progress(rank == 0 && options.progress);
    while (!hydro.is_over() && (options.cycles_max == 0 || hydro.cycles() < options.cycles_max)) {
        const double begin = MPI_Wtime();
        hydro.cycle();
        const double seconds = MPI_Wtime() - begin;
        recorder.count(seconds);
        if (chooser) chooser->after_cycle(hydro, seconds);
        if (hydro.cycles() > options.warm_up && !(chooser && chooser->was_trying()))
            recorder.take(hydro, seconds);
        if (!std::isfinite(hydro.step()) || (hydro.step() <= 0 && !hydro.is_over()))
            throw std::runtime_error(fmt::format("the step became {} at time {} (cycle {})", hydro.step(),
                                                 hydro.time(), hydro.cycles()));
        progress.show(hydro, options);
    }
    hydro.settle();
}

// What of the kernels goes to peers by plain messages.
bool has_peers(const Options& options, const Roles& roles) {
    return options.way == Way::kMpmd || (options.way == Way::kAuto && roles.peers > 0);
}

// Returns -1 to go on, else the exit status.
int check_shape(const Options& options, const Roles& roles, bool speak) {
    const Problem& problem = options.problem;
    int ranks_x = 0, ranks_y = 0;
    choose_grid(problem.zones_x, problem.zones_y, roles.ranks, ranks_x, ranks_y);
    const bool with_peers = has_peers(options, roles);
    const char* wrong = ranks_x == 0 ? "there are more ranks than zones can be split for"
                        : double(problem.zones_x) * problem.zones_y / ranks_x / ranks_y > kZonesMax
                            ? "a rank has at most 200 million zones: use more ranks"
                        : with_peers && roles.peers != roles.ranks
                            ? "needs as many peers as ranks: mpirun -np N hydro ... : -np N hydro_peer"
                        : !with_peers && roles.peers > 0
                            ? "there are peers, but nothing goes to them: say --offload mpmd or auto"
                            : nullptr;
    if (!wrong) return -1;
    if (speak)
        fmt::print(stderr, "hydro: {} ranks, --offload {}: {}\n", roles.ranks, name_in(kWays, options.way),
                   wrong);
    return 2;
}

int run(const Options& options, const Roles& roles, const Threads& threads) {
    int rank = 0;
    MPI_Comm_rank(roles.mine, &rank);
    Report report{};
    const Problem& problem = options.problem;
    report.ranks = roles.ranks;
    report.threads = threads;
    choose_grid(problem.zones_x, problem.zones_y, roles.ranks, report.ranks_x, report.ranks_y);
    const bool with_peers = has_peers(options, roles);
    const Mesh mesh = build_mesh(problem, rank, report.ranks_x, report.ranks_y);
    const auto side = with_peers ? make_mpmd_side(mesh, roles.partner)
                      : options.way == Way::kTasks || options.way == Way::kAuto
                          ? make_tasks_side(options.slow, options.keep, threads.count)
                          : make_inline_side();
    Hydro hydro(problem, mesh, roles.mine, *side, problem.chunk);
    report.energies_first = hydro.energies();
    const unsigned kernels = kernels_of(options.variant);
    std::optional<Chooser> chooser;
    if (options.way == Way::kAuto) chooser.emplace(kernels, roles.mine, *side);
    if (options.way != Way::kNone && options.way != Way::kAuto) hydro.hand_over(kernels);
    Recorder recorder;
    advance(hydro, options, chooser ? &*chooser : nullptr, recorder, rank);

    report.cycles = hydro.cycles();
    report.time = hydro.time();
    report.zones = mesh.zones_global;
    report.energies = hydro.energies();
    report.findings = check(hydro, problem, report.energies_first.total(), roles.mine);
    report.measured = recorder.over_ranks(roles.mine);
    report.handed = hydro.handed_over();
    report.processes = side->processes;
    for (int kernel = 0; kernel < kKernels; ++kernel)
        report.bytes_per_zone[std::size_t(kernel)] =
            double(hydro.bytes_handed(KernelId(kernel))) / mesh.zones;
    report.copied_per_zone = double(side->bytes_copied) / double(report.cycles) / mesh.zones;
    if (chooser) report.reasons = chooser->reasons();
    if (chooser && !chooser->is_decided()) report.reasons.push_back("the run ended before it was decided");
    if (chooser) {
        report.trial_cycles = chooser->cycles_tried();
        report.trial_seconds = chooser->seconds_spent();
        report.reasons.push_back(
            fmt::format("{} cycles of trials took {:.3f} ms more than with nothing handed over",
                        report.trial_cycles, 1e3 * report.trial_seconds));
    }
    if (rank == 0) print(options, report);
    if (rank == 0 && !options.json.empty()) write_json(options, report);
    return report.findings.passed() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    abort_job_on_exceptions("hydro");
    int given = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    const Roles roles = split_roles(Role::kRank);
    int rank = 0;
    MPI_Comm_rank(roles.mine, &rank);
    Options options;
    int status = parse(argc, argv, rank == 0, options);
    if (status == -1) status = check_shape(options, roles, rank == 0);
    status = agree_to_end(status);
    if (status == -1) status = run(options, roles, choose_threads());
    MPI_Finalize();
    return status;
}
