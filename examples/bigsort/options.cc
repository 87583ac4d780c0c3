#include "options.h"

#include <fmt/format.h>

#include <map>

#include "../command_line.h"
#include "../names.h"

namespace bigsort {

namespace {

const char* const kDescription =
    "Sorts unsigned 64-bit integers that do not fit into memory, in three phases:\n"
    "  1. each rank reads a part of the input and sends each value to the rank of its range (MPI_Alltoallv)\n"
    "  2. each rank sorts what it has got, by cycles of page sorts and merges through temporary files\n"
    "  3. the ranks' files are put one behind the other into the output (MPI-IO)\n"
    "With --offload the open, write and close calls of phase 2 are made by a peer process of each rank:\n"
    "  mpirun -np 2 bigsort --offload mpmd ... : -np 2 bigsort_peer\n"
    "or by Longshore's task processes:\n"
    "  longshore run mpirun -np 2 bigsort --offload tasks ...\n"
    "The result is always checked: the order, the count and a sum of hashes.\n";

const std::map<std::string, Offload> kOffloads = {
    {"none", Offload::kNone}, {"mpmd", Offload::kMpmd}, {"tasks", Offload::kTasks}, {"auto", Offload::kAuto}};
const std::map<std::string, Placement> kPlacements = {
    {"same-host", Placement::kSameHost}, {"other-node", Placement::kOtherNode}, {"dpu", Placement::kDpu}};
const std::map<std::string, Distribution> kDistributions = {
    {"uniform", Distribution::kUniform}, {"skewed", Distribution::kSkewed}, {"few", Distribution::kFew}};

void check_sizes(const Options& options) {
    const auto wrong = [](const std::string& text) { throw CLI::ValidationError(text); };
    if (options.page_bytes < sizeof(Value) || options.page_bytes % sizeof(Value) != 0)
        wrong(fmt::format("--page {}: a page holds whole values of {} bytes", options.page_bytes,
                          sizeof(Value)));
    if (options.dram_bytes < 2 * options.page_bytes)
        wrong(
            fmt::format("--dram {} --page {}: DRAM must hold two pages at least, else nothing can be merged",
                        options.dram_bytes, options.page_bytes));
    if (options.dram_bytes % options.page_bytes != 0)
        wrong(fmt::format("--dram {} --page {}: DRAM must be a multiple of the page (nearest: {})",
                          options.dram_bytes, options.page_bytes,
                          options.dram_bytes / options.page_bytes * options.page_bytes));
    if (options.total_bytes % sizeof(Value) != 0)
        wrong(fmt::format("--total {}: must be a multiple of {} bytes, the size of a value",
                          options.total_bytes, sizeof(Value)));
    if (options.total_bytes == 0 && options.input.empty()) wrong("give --total SIZE, or --input FILE");
}

}  // namespace

const char* name_of(Offload offload) {
    return name_in(kOffloads, offload);
}
const char* name_of(Placement placement) {
    return name_in(kPlacements, placement);
}

int parse(int argc, char** argv, bool speak, Options& options) {
    CLI::App app(kDescription);
    const CLI::AsSizeValue size(false);
    app.add_option("--total", options.total_bytes,
                   "bytes of all values, as 64M; with --input what the file must have")
        ->transform(size);
    app.add_option("--page", options.page_bytes,
                   "PAGE: bytes that are sorted, read and written at once (default 8K)")
        ->transform(size);
    app.add_option("--dram", options.dram_bytes,
                   "DRAM: bytes of pages in memory; DRAM / PAGE files are merged at once (default 1M)")
        ->transform(size);
    app.add_option("--threads", options.threads, "OpenMP threads that sort pages")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--files-max", options.files_max, "files that a peer opens ahead in a cycle")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option(
           "--offload", options.offload,
           "who writes the temporary files: none (default), the rank itself; mpmd, a peer process; tasks, a "
           "task process of Longshore (under `longshore run`); auto, the rank, or else its peer, or a task "
           "process where there are no peers, whichever was quicker in a part of the first cycle")
        ->transform(CLI::CheckedTransformer(kOffloads))
        ->option_text("none|mpmd|tasks|auto");
    app.add_option("--placement", options.placement,
                   "which peer a rank takes: one on its own node (default), one on another, or one on a DPU, "
                   "which is "
                   "another node, too")
        ->transform(CLI::CheckedTransformer(kPlacements))
        ->option_text("same-host|other-node|dpu");
    app.add_option("--input", options.input,
                   "file of values in the machine's byte order (default: made by --seed)");
    app.add_option("--output", options.output, "sorted file (default: one that is removed after the check)");
    app.add_option("--temporary", options.temporary, "folder for temporary files")->capture_default_str();
    app.add_option("--peer-temporary", options.peer_temporary,
                   "the same folder as peers and task processes see it, if it differs");
    app.add_option("--seed", options.seed, "of the values that are made")->capture_default_str();
    app.add_option("--values", options.distribution,
                   "of the values that are made: uniform (default), skewed, few")
        ->transform(CLI::CheckedTransformer(kDistributions))
        ->option_text("uniform|skewed|few");
    app.add_option("--peer-limit", options.peer_limit_s, "seconds after which a silent peer is given up")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
    app.add_option("--json", options.json, "write the result to this file");
    return read_command_line(app, argc, argv, speak, [&] {
        check_sizes(options);
        if (options.peer_temporary.empty()) options.peer_temporary = options.temporary;
    });
}

}  // namespace bigsort
