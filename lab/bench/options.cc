#include "bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>

#include "tools/terminal.h"

namespace longshore::bench {
namespace {

// As LONGSHORE_<COLLECTIVE>_ALGORITHM takes them; a collective is measured with those that it has.
constexpr const char* kAlgorithms[] = {"mpi", "direct", "staged", "staged-flat", "staged-hierarchical"};
// So that a run of all collectives takes minutes: some 70 rows, each within --time-limit.
constexpr std::initializer_list<std::size_t> kSizesByDefault = {1 << 10, 16 << 10, 256 << 10, 4 << 20};
constexpr std::size_t kSizeMax = std::size_t(1) << 30;

// Sentences are whole lines in what is printed: the terminal decides where they are broken.
const char* const kDescription =
    "Latency and overlap of MPI collectives, in the protocol of OSU's nonblocking benchmarks, of the "
    "MPI library (host) and of Longshore in one launch, taking turns. Started by 'longshore bench', "
    "or by mpirun: without the preloaded library only the host is measured.\n";

const char* const kFooter =
    "\n"
    "An iteration begins with a barrier; its time is the maximum over the ranks, because a "
    "collective is done when its slowest rank is (a mean over ranks hides one that waits). All "
    "statistics are over iterations, times in us.\n"
    "  pure      post and wait at once\n"
    "  t_sp      what the service processes need when no rank helps and every rank's core is free: "
    "from the post to the last block moved, while ranks sleep and look seldom. Computing takes 1.2 x "
    "the time until the ranks have seen it (JSON: t_sp_seen_us; on several nodes t_sp is that), for "
    "the host contender too; without Longshore 1.2 x pure, as OSU does\n"
    "  copy%     how fast a service process copies meanwhile, of memcpy by one core alone between a "
    "rank's send and receive buffer\n"
    "  overlap   max(0, 100 - (overall - compute) / pure * 100), where overall - compute is taken on "
    "each rank before the maximum: ranks oversleep by different amounts\n"
    "  post      time in the posting call; wait: time left in MPI_Wait after computing; of the "
    "slowest rank, and beside it the mean over the ranks, which is what the OSU benchmarks print\n"
    "  SP %      share of the bytes received from other ranks that service processes moved, of all "
    "bytes that the operations had to move; a row is 'counted' from 99 % on\n"
    "  work x    (--compute work) how much longer the same work takes with the operation in flight\n"
    "  vs limit  median of pure by that of copy-limit, which takes its turns in the same run\n"
    "  cpu       CPU time of all ranks together per operation, computing included\n"
    "\n"
    "--breakdown: the call of the rank that took longest, in stages that follow each other:\n"
    "  hand-over  until the others can see its operation\n"
    "  peers      until the last of them has entered, or blocks move\n"
    "  queue      until the first of its chunks moves\n"
    "  copy       until the last block has come (a root: is read)\n"
    "  ack        until the others have read its own\n"
    "  wake-up    until the call returns\n"
    "  ranks, SPs: how long the copies of a rank's incoming blocks took, added up, by who made "
    "them; of the rank where that was longest\n"
    "\n"
    "--imbalance: in each iteration some ranks, drawn by the seed, enter an allgather late; all go "
    "on to an alltoall at once. Delays are the same for host and Longshore: 15 to 50 % of the time "
    "of the host's allgather, measured first with every rank on time. Mean times per rank and "
    "iteration; unavoidable is a rank's time from its own entry to the last rank's, avoidable the "
    "rest. --collectives chooses allgather or allgatherv, --compute sleep or spin how the late ones "
    "pass the time.\n";

constexpr std::size_t kHelpColumns = 120;  // where the output is no terminal

std::vector<std::size_t> powers_of_two(std::size_t min, std::size_t max) {
    std::vector<std::size_t> sizes;
    for (std::size_t size = 1; size <= max; size *= 2)
        if (size >= min) sizes.push_back(size);
    return sizes;
}

void check_names(const std::vector<std::string>& names, const std::vector<std::string>& known) {
    for (const std::string& name : names)
        if (std::find(known.begin(), known.end(), name) == known.end())
            throw CLI::ValidationError(
                fmt::format("no collective '{}'; there are: {}", name, fmt::join(known, " ")));
}

void choose_contenders(const std::vector<std::string>& names, Options& options) {
    const auto has = [&](const char* name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    options.host = has("host");
    options.longshore = has("longshore");
    options.copy_limit = has("copy-limit");
    for (const std::string& name : names) {
        if (std::count(names.begin(), names.end(), name) > 1)
            throw CLI::ValidationError(fmt::format("--contenders has '{}' twice", name));
        if (name == "host" || name == "longshore" || name == "copy-limit") continue;
        if (std::find(std::begin(kAlgorithms), std::end(kAlgorithms), name) == std::end(kAlgorithms))
            throw CLI::ValidationError(
                fmt::format("no contender '{}'; there are: host longshore copy-limit {}", name,
                            fmt::join(kAlgorithms, " ")));
        options.algorithms.push_back(name);
    }
}

// What --imbalance measures where nothing else is said, and what it cannot.
void complete_imbalance(bool collectives_given, bool sizes_given, Options& options) {
    if (!collectives_given) options.collectives = {"allgather"};
    if (!sizes_given) options.sizes = {64 << 10, 256 << 10, 1 << 20};
    for (const std::string& name : options.collectives)
        if (name != "allgather" && name != "allgatherv")
            throw CLI::ValidationError(
                fmt::format("--imbalance takes allgather or allgatherv, not {}", name));
    if (options.compute == Compute::kWork)
        throw CLI::ValidationError("with --imbalance, --compute is sleep or spin");
}

// What the modes for large blocks measure where nothing else is said.
void choose_large_blocks(bool collectives_given, bool sizes_given, Options& options) {
    if (!collectives_given)
        options.collectives = {"ialltoallv", "alltoallv", "iallgather", "allgather", "ibcast", "bcast"};
    if (!sizes_given) options.sizes = powers_of_two(64 << 10, 4 << 20);
}

}  // namespace

const char* to_string(Compute compute) {
    switch (compute) {
        case Compute::kSleep:
            return "sleep";
        case Compute::kSpin:
            return "spin";
        case Compute::kWork:
            return "work";
    }
    return "?";
}

int parse(int argc, char** argv, const std::vector<std::string>& collectives, bool speak, Options& options) {
    CLI::App app(kDescription, "longshore bench --");
    app.set_help_flag("-h,--help", "show this help");
    app.footer(kFooter);
    std::size_t min = 1, max = std::size_t(4) << 20;
    std::vector<std::string> contenders = {"host", "longshore"};
    std::string cooperative = "on";
    bool copy_limit = false, first_use = false, breakdown = false, overhead = false, imbalance = false,
         list = false, all = false;
    int vary = 0;
    const std::map<std::string, Compute> computes = {
        {"sleep", Compute::kSleep}, {"spin", Compute::kSpin}, {"work", Compute::kWork}};
    const std::map<std::string, ProgressStyle> styles = {{"auto", ProgressStyle::kAuto},
                                                         {"bar", ProgressStyle::kBar},
                                                         {"bar-among-rows", ProgressStyle::kBarAmongRows},
                                                         {"lines", ProgressStyle::kLines},
                                                         {"none", ProgressStyle::kNone}};
    options.collectives = collectives;

    auto* collectives_option = app.add_option("--collectives", options.collectives,
                                              fmt::format("which, separated by commas (default: all): {}",
                                                          fmt::join(collectives, ", ")))
                                   ->delimiter(',')
                                   ->option_text("LIST");
    auto* min_option = app.add_option("--min", min, "smallest size per pair (default: 1)")
                           ->transform(CLI::AsSizeValue(false))
                           ->option_text("SIZE");
    auto* max_option = app.add_option("--max", max, "largest size per pair (default: 4M)")
                           ->transform(CLI::AsSizeValue(false))
                           ->option_text("SIZE");
    app.add_option("--sizes", options.sizes, "these sizes, as 64K,1M (default: 1K,16K,256K,4M)")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->option_text("LIST");
    auto* all_option =
        app.add_flag("--all", all, "every power of two from --min to --max, as when one of these is given");
    app.add_option("--compute", options.compute,
                   "between post and wait: sleep (default; the core is free), spin (busy for that long), "
                   "work (a fixed amount "
                   "of arithmetic and memory traffic)")
        ->transform(CLI::CheckedTransformer(computes, CLI::ignore_case))
        ->option_text("sleep|spin|work");
    app.add_option("--compute-us", options.compute_us, "length of computing, instead of 1.2 x t_sp")
        ->check(CLI::PositiveNumber)
        ->option_text("US");
    auto* contenders_option =
        app.add_option(
               "--contenders", contenders,
               "host, longshore, copy-limit (one machine, for alltoall, allgather and bcast of every "
               "form: ranks copy out of memory that all have mapped, the least time any library could "
               "take), and Longshore with an algorithm forced: mpi, direct, staged, staged-flat, "
               "staged-hierarchical (default: host,longshore)")
            ->delimiter(',')
            ->option_text("LIST");
    app.add_option("--cooperative", cooperative,
                   "whether ranks that wait move blocks themselves (default: on)")
        ->check(CLI::IsMember({"on", "off"}))
        ->option_text("on|off");
    auto* vary_option = app.add_option("--vary-buffers", vary,
                                       "rotate over this many pairs of buffers (4 if no number is given)")
                            ->expected(0, 1)
                            ->check(CLI::Range(1, 64))
                            ->option_text("[N]");
    app.add_option("--samples", options.samples, "turns of each contender per row (default: 10)")
        ->check(CLI::Range(1, 100000))
        ->option_text("N");
    app.add_option("--iterations", options.iterations,
                   "operations in a turn, fewer if the time limit asks for it (default: 20)")
        ->check(CLI::Range(1, 100000))
        ->option_text("N");
    app.add_option("--warmup", options.warmup, "operations before the first turn (default: 5)")
        ->check(CLI::Range(1, 100000))
        ->option_text("N");
    app.add_option("--time-limit", options.time_limit_s, "seconds per row (default: 3)")
        ->check(CLI::PositiveNumber)
        ->option_text("S");
    app.add_option("--json", options.json,
                   "write machine, rows and all samples to this file, a JSON object per line")
        ->option_text("FILE");
    app.add_flag("--json-append", options.json_append, "add to that file instead of writing it anew");
    app.add_option(
           "--progress", options.progress,
           "on stderr; auto (default): bar on a terminal, else lines; bar-among-rows: on stdout, where "
           "the rows are on the same terminal")
        ->transform(CLI::CheckedTransformer(styles, CLI::ignore_case))
        ->take_last()
        ->option_text("auto|bar|bar-among-rows|lines|none");
    app.add_flag(
        "--narrow", options.narrow,
        "only the columns that matter most, within 80 (so by itself on a terminal that is not wide)");
    app.add_flag("--list", list, "instead: print the names of the collectives, one a line");
    const char* const modes = "What else it can measure, one at a time";
    app.add_flag(
           "--copy-limit", copy_limit,
           "first what one core copies, by memcpy and by process_vm_readv and _writev; then the rows of "
           "host, longshore and copy-limit, of six collectives at 64K to 4M if nothing else is said")
        ->group(modes);
    app.add_flag(
           "--first-use", first_use,
           "buffers that no collective has been given before, beside those used again and again, of the "
           "same collectives and sizes if nothing else is said")
        ->group(modes);
    app.add_flag(
           "--breakdown", breakdown,
           "where the time of Longshore's operations goes, of the same collectives and sizes if nothing "
           "else is said")
        ->group(modes);
    app.add_flag("--overhead", overhead, "cost of calls that are not offloaded, MPI_ against PMPI_")
        ->group(modes);
    auto* late_option =
        app.add_option("--late", options.late_ms,
                       "the last rank enters that many ms late; time from its entry to everyone's "
                       "completion, against the time for moving its own blocks")
            ->check(CLI::PositiveNumber)
            ->option_text("MS")
            ->group(modes);
    auto* imbalance_option = app.add_flag("--imbalance", imbalance,
                                          "some ranks enter an allgather late, an alltoall follows; time "
                                          "beyond waiting for the last to enter")
                                 ->group(modes);
    app.add_option("--seed", options.seed, "... of who is late and by how much (default: 1)")
        ->needs(imbalance_option)
        ->option_text("N")
        ->group(modes);
    app.add_option("--late-share", options.late_share,
                   "... how many of the ranks, in each iteration (default: 0.09)")
        ->needs(imbalance_option)
        ->check(CLI::Range(0.0, 1.0))
        ->option_text("SHARE")
        ->group(modes);

    try {
        app.parse(argc, argv);
        if (copy_limit + first_use + breakdown + overhead + imbalance + int(late_option->count() > 0) > 1)
            throw CLI::ValidationError(
                "of --copy-limit, --first-use, --breakdown, --overhead, --late and --imbalance one at a "
                "time");
        if (all && !options.sizes.empty()) throw CLI::ValidationError("--all and --sizes: give one of them");
        check_names(options.collectives, collectives);
        choose_contenders(contenders, options);
        if ((!options.algorithms.empty() || options.copy_limit) &&
            (overhead || imbalance || options.late_ms > 0))
            throw CLI::ValidationError(
                "--overhead, --late and --imbalance take the contenders host and longshore only");
        const bool powers_wanted = all_option->count() + min_option->count() + max_option->count() > 0;
        const bool sizes_given = !options.sizes.empty() || powers_wanted;
        if (imbalance) complete_imbalance(collectives_option->count() > 0, sizes_given, options);
        if (copy_limit || first_use || breakdown)
            choose_large_blocks(collectives_option->count() > 0, sizes_given, options);
        if (copy_limit && contenders_option->count() == 0) options.copy_limit = true;
        if (options.sizes.empty())
            options.sizes =
                powers_wanted ? powers_of_two(min, max) : std::vector<std::size_t>(kSizesByDefault);
        std::sort(options.sizes.begin(), options.sizes.end());
        if (options.sizes.empty()) throw CLI::ValidationError("no power of two between --min and --max");
        if (options.sizes.front() == 0 || options.sizes.back() > kSizeMax)
            throw CLI::ValidationError("sizes go from 1 byte to 1 GiB");
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        const int status = app.exit(error, out, err);
        const std::size_t columns = tools::terminal_columns(stdout);
        if (speak) fmt::print("{}", tools::wrapped(out.str(), columns != 0 ? columns : kHelpColumns));
        if (speak) fmt::print(stderr, "{}", err.str());
        return status == 0 ? 0 : 2;
    }
    if (list) {
        if (speak)
            for (const std::string& name : collectives) fmt::print("{}\n", name);
        return 0;
    }
    options.cooperative = cooperative == "on";
    if (vary_option->count() > 0) options.buffers = vary > 0 ? vary : 4;
    if (copy_limit) options.mode = Mode::kCopyLimit;
    if (first_use) options.mode = Mode::kFirstUse;
    if (breakdown) options.mode = Mode::kBreakdown;
    if (overhead) options.mode = Mode::kOverhead;
    if (options.late_ms > 0) options.mode = Mode::kLate;
    if (imbalance) options.mode = Mode::kImbalance;
    return -1;
}

}  // namespace longshore::bench
