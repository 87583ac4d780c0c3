// bigsort: a parallel sort through files whose file writing can be done by a process beside the rank, rebuilt
// from its description in Williams et al., "Exploring Challenges Associated with Employing SmartNICs as
// General-Purpose HPC Accelerators", and that of CORAL-2's BigSort.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "../abort_job.h"
#include "pairing.h"
#include "patience.h"
#include "phases.h"
#include "space.h"

namespace bigsort {

namespace {

// A wrong use, found alike by all ranks or by one that tells the others.
struct Refusal {
    std::string text;
};

// A bar on a terminal, redrawn twice a second at most.
class Bar {
  public:
    void show(int phase, double part) {
        const double now = now_s();
        if (part < 1 && now - last_s_ < 0.5) return;
        last_s_ = now;
        constexpr int kWidth = 40;
        const int full = int(part * kWidth);
        fmt::print(stderr, "\rphase {} of 3 [{:=<{}}{: <{}}] {:3.0f} %{}", phase, "", full, "", kWidth - full,
                   100 * part, part >= 1 ? "\n" : "");
        std::fflush(stderr);
    }

  private:
    double last_s_ = 0;
};

// Reading and writing need so many descriptors. Raises the soft limit where it can.
void require_descriptors(const Options& options) {
    const std::uint64_t need = options.dram_bytes / options.page_bytes + options.files_max + 64;
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= need) return;
    if (limit.rlim_max < need)
        throw Refusal{
            fmt::format("--dram / --page = {} files are merged at once: that needs {} open files, the limit "
                        "is {} (ulimit -Hn)",
                        options.dram_bytes / options.page_bytes, need, limit.rlim_max)};
    limit.rlim_cur = need;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// Rank 0 looks at the input for all.
std::uint64_t values_of_all(const Options& options) {
    if (options.input.empty()) return options.total_bytes / sizeof(Value);
    struct stat input;
    if (stat(options.input.c_str(), &input) != 0)
        throw Refusal{FileError("find", options.input, errno).what()};
    const std::uint64_t bytes = std::uint64_t(input.st_size);
    if (bytes % sizeof(Value) != 0)
        throw Refusal{fmt::format("{} is cut off: its {} bytes are not a multiple of {}", options.input,
                                  bytes, sizeof(Value))};
    if (options.total_bytes > 0 && bytes != options.total_bytes)
        throw Refusal{fmt::format("{} has {} bytes, --total says {}: it is cut off, or another file",
                                  options.input, bytes, options.total_bytes)};
    return bytes / sizeof(Value);
}

// What rank 0 has decided, or why nothing begins.
struct Plan {
    char problem[512] = {};
    std::uint64_t values_count = 0;
    std::uint64_t job = 0;
};

// Rank 0 looks for all whether the output can be made, before hours are spent on it.
void require_output(const Options& options) {
    if (options.output.empty()) return;
    const std::string unfinished = options.output + ".unfinished";
    const int file = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) throw Refusal{FileError("make", unfinished, errno).what()};
    close(file);
    unlink(unfinished.c_str());
}

void broadcast_plan(Job& job, Plan& plan) {
    if (job.rank == 0) {
        try {
            plan.values_count = values_of_all(job.options);
            require_descriptors(job.options);
            require_output(job.options);
        } catch (const Refusal& refusal) {
            std::snprintf(plan.problem, sizeof(plan.problem), "%s", refusal.text.c_str());
        }
        plan.job = (std::uint64_t(std::random_device{}()) << 32) | std::uint64_t(getpid());
    }
    MPI_Bcast(&plan, sizeof(plan), MPI_BYTE, 0, job.ranks);
    if (plan.problem[0]) throw Refusal{plan.problem};
    try {
        if (job.rank != 0) require_descriptors(job.options);
    } catch (const Refusal& refusal) {  // of this rank alone: it speaks for itself
        throw std::runtime_error(refusal.text);
    }
    job.values_count = plan.values_count;
}

void make_places(Job& job, std::uint64_t number) {
    std::string temporary = job.options.temporary;
    while (temporary.size() > 1 && temporary.back() == '/') temporary.pop_back();
    job.temporary->set_rank(job.rank);
    std::string problem;
    try {
        job.temporary->make_folder(fmt::format("{}/bigsort-{:x}-{}", temporary, number, job.rank));
    } catch (const FileError& error) {
        problem = error.what();
    }
    int bad = problem.empty() ? job.ranks_count : job.rank;
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MIN, job.ranks);
    if (bad < job.ranks_count) {
        char text[512] = "";
        std::snprintf(text, sizeof(text), "%s", problem.c_str());
        MPI_Bcast(text, sizeof(text), MPI_CHAR, bad, job.ranks);
        throw Refusal{fmt::format("rank {}: {}", bad, text)};
    }
    // Under another name until it is whole; where no output is wanted, that name is all there is.
    job.output = job.options.output.empty() ? fmt::format("{}/bigsort-{:x}-output", temporary, number)
                                            : job.options.output + ".unfinished";
    if (job.rank == 0) job.temporary->set_unfinished(std::filesystem::absolute(job.output).string());
}

// What is printed: the slowest rank's times, and the layout of the rank with the most values.
struct Result {
    double phase1_s = 0, phase2_s = 0, phase3_s = 0;
    LocalSort largest;
    std::uint64_t offloaded_ranks = 0;
    Tally tally;
    std::string wrong;
};

double slowest(const Job& job, double seconds) {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, job.ranks);
    return seconds;
}

Result sort(const Job& job) {
    Result result;
    MPI_Barrier(job.ranks);
    const double begin = now_s();
    const Bin bin = distribute(job);
    result.phase1_s = slowest(job, now_s() - begin);
    if (const std::string lack = lacking_space(job, bin.values, bin.values); !lack.empty())
        throw Refusal{lack};
    LocalSort sorted = sort_locally(job, bin);
    result.phase2_s = slowest(job, sorted.seconds);
    result.phase3_s = slowest(job, join(job, sorted));
    result.wrong = check(job, bin.read);
    result.tally = bin.read;
    std::uint64_t sums[3] = {bin.read.count, bin.read.hash_sum, sorted.offloaded};
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_UINT64_T, MPI_SUM, job.ranks);
    result.tally = {sums[0], sums[1]};
    result.offloaded_ranks = sums[2];
    MPI_Allreduce(MPI_IN_PLACE, &sorted.layout.values, 1, MPI_UINT64_T, MPI_MAX, job.ranks);
    result.largest = sorted;
    return result;
}

void print(const Job& job, const Result& result) {
    const Options& options = job.options;
    const Layout& layout = result.largest.layout;
    fmt::print("bigsort: {} bytes on {} ranks, PAGE {}, DRAM {}, {} threads, --offload {}",
               job.values_count * 8, job.ranks_count, options.page_bytes, options.dram_bytes, options.threads,
               name_of(options.offload));
    if (job.peer >= 0) fmt::print(" --placement {}", name_of(options.placement));
    fmt::print(
        "\n  phase 1, distribute     {:9.3f} s\n  phase 2, sort locally   {:9.3f} s   {} cycles, {} files of "
        "{} "
        "pages on the fullest rank\n  phase 3, join           {:9.3f} s\n",
        result.phase1_s, result.phase2_s, layout.cycles(), layout.files_of_all_cycles(), layout.pages(),
        result.phase3_s);
    if (options.offload == Offload::kAuto) {
        fmt::print("  auto: {} of {} ranks have offloaded", result.offloaded_ranks, job.ranks_count);
        if (result.largest.tried)
            fmt::print("; rank 0 expected {:.3f} s by itself, {:.3f} s by its peer",
                       result.largest.tried_rank_s, result.largest.tried_peer_s);
        fmt::print("\n");
    }
    if (result.wrong.empty())
        fmt::print("  checked: {} values in ascending order, hash sum {:016x}\n", result.tally.count,
                   result.tally.hash_sum);
    else
        fmt::print("  FAILED: {} ({} values, hash sum {:016x} in the input)\n", result.wrong,
                   result.tally.count, result.tally.hash_sum);
}

void write_json(const Job& job, const Result& result) {
    const Options& options = job.options;
    const Layout& layout = result.largest.layout;
    nlohmann::ordered_json out = {{"total_bytes", job.values_count * sizeof(Value)},
                                  {"ranks", job.ranks_count},
                                  {"page_bytes", options.page_bytes},
                                  {"dram_bytes", options.dram_bytes},
                                  {"threads", options.threads},
                                  {"files_max", options.files_max},
                                  {"offload", name_of(options.offload)},
                                  {"placement", name_of(options.placement)},
                                  {"cycles", layout.cycles()},
                                  {"pages_of_fullest_rank", layout.pages()},
                                  {"files_of_fullest_rank", layout.files_of_all_cycles()},
                                  {"offloaded_ranks", result.offloaded_ranks},
                                  {"tasks_of_rank_0",
                                   {{"processes", result.largest.tasks.processes},
                                    {"tasks", result.largest.tasks.tasks},
                                    {"bytes_mapped", result.largest.tasks.bytes_mapped},
                                    {"bytes_copied", result.largest.tasks.bytes_copied}}},
                                  {"seconds",
                                   {{"phase1", result.phase1_s},
                                    {"phase2", result.phase2_s},
                                    {"phase3", result.phase3_s},
                                    {"cycles_of_rank_0", result.largest.cycle_s}}},
                                  {"values", result.tally.count},
                                  {"hash_sum", fmt::format("{:016x}", result.tally.hash_sum)},
                                  {"passed", result.wrong.empty()}};
    if (result.largest.tried)
        out["trial_of_rank_0_s"] = {{"by_itself", result.largest.tried_rank_s},
                                    {"by_peer", result.largest.tried_peer_s}};
    std::ofstream file(options.json);
    file << out.dump(2) << '\n';
    if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
}

int finish(Job& job, const Result& result) {
    if (job.rank == 0) {
        print(job, result);
        if (!job.options.json.empty()) write_json(job, result);
        if (result.wrong.empty() && !job.options.output.empty() &&
            rename(job.output.c_str(), job.options.output.c_str()) != 0)
            throw FileError("rename to " + job.options.output, job.output, errno);
    }
    MPI_Barrier(job.ranks);
    job.temporary->remove();
    return result.wrong.empty() ? 0 : 1;
}

int run_job(Job& job) {
    Plan plan;
    broadcast_plan(job, plan);
    make_places(job, plan.job);
    const std::uint64_t share = job.values_count / std::uint64_t(job.ranks_count) + 1;
    if (const std::string lack = lacking_space(job, share, 0); !lack.empty()) throw Refusal{lack};
    Bar bar;
    if (job.rank == 0 && isatty(STDERR_FILENO))
        job.progress = [&bar](int phase, double part) { bar.show(phase, part); };
    return finish(job, sort(job));
}

// Tells the peers whether there is something to do, and finds this rank's.
bool start(Job& job, bool go) {
    const std::vector<Role> roles = exchange_roles(job.world, Role::kRank);
    int me = 0;
    MPI_Comm_rank(job.world, &me);
    MPI_Comm_split(job.world, 0, me, &job.ranks);
    MPI_Comm_rank(job.ranks, &job.rank);
    MPI_Comm_size(job.ranks, &job.ranks_count);
    const int leader = int(std::find(roles.begin(), roles.end(), Role::kRank) - roles.begin());
    Start word{go, job.options.offload, job.options.placement};
    MPI_Bcast(&word, sizeof(word), MPI_BYTE, leader, job.world);
    if (!go || !needs_peers(job.options.offload, roles)) return true;
    const Pairing pairing = pair(job.world, roles, job.options.placement);
    job.peer = pairing.peer_of[std::size_t(me)];
    if (!pairing.problem.empty() && job.rank == 0) fmt::print(stderr, "bigsort: {}\n", pairing.problem);
    return pairing.problem.empty();
}

int run(int argc, char** argv, Temporary& temporary) {
    Job job;
    job.temporary = &temporary;
    int me = 0;
    MPI_Comm_rank(job.world, &me);
    const int status = parse(argc, argv, me == 0, job.options);
    if (!start(job, status == -1)) return 2;
    if (status != -1) return status;
    int result = 2;
    try {
        result = run_job(job);
    } catch (const Refusal& refusal) {
        if (job.rank == 0) fmt::print(stderr, "bigsort: {}\n", refusal.text);
        temporary.remove();
        MPI_Barrier(job.ranks);
        if (job.peer >= 0 && job.rank == 0) abort_job(2);  // the peers wait for pages
    }
    meet(job.world);
    return result;
}

}  // namespace

}  // namespace bigsort

int main(int argc, char** argv) {
    bigsort::Temporary temporary("rank");
    abort_job_on_exceptions("bigsort", [&temporary] { temporary.remove(); });
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    const int status = bigsort::run(argc, argv, temporary);
    MPI_Finalize();
    return status;
}
