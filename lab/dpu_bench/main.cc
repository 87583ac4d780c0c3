// longshore-dpu-bench-<mpi>: one launch of the benchmark, with one number of workers. 'longshore dpu-bench'
// starts it for each; on a cluster mpirun can, with the workers' processes last.
#include <fmt/format.h>
#include <mpi.h>

#include <exception>

#include "base/text.h"
#include "bench/json_lines.h"
#include "bench/machine.h"
#include "dpu_bench/arguments.h"
#include "dpu_bench/report.h"

namespace longshore::dpu_bench {
namespace {

constexpr int kFailed = 1, kUsage = 2, kNotReady = 125;

std::vector<std::pair<Pattern, Assignment>> tables_of(const Options& options) {
    std::vector<std::pair<Pattern, Assignment>> tables;
    for (const Pattern pattern : options.patterns)
        for (const Assignment assignment : options.assignments)
            if (has_assignment(pattern, assignment)) tables.emplace_back(pattern, assignment);
    return tables;
}

bool measure_table(const Session& session, Pattern pattern, Assignment assignment, bench::JsonLines* json,
                   Progress* progress) {
    bool first = true;
    for (const std::size_t bytes : session.options.sizes) {
        progress->next(fmt::format("{} {} {}", to_string(pattern), to_string(assignment), show_size(bytes)));
        const std::optional<Row> row = measure(session, pattern, assignment, bytes);
        if (!row) return false;
        if (!session.ranks.is_root()) continue;
        if (first) print_header(session, pattern, assignment);
        first = false;
        print_row(session, *row);
        json->write(to_json(session, *row));
    }
    return true;
}

Compute choose(Compute wanted, const Ranks& ranks) {
    if (wanted != Compute::kAuto) return wanted;
    return ranks.crowded() ? Compute::kSleep : Compute::kWork;
}

// The mover, joined with those of all ranks. Nothing if some rank has none; the reason is printed.
std::unique_ptr<Mover> join_movers(const Options& options, const Ranks& ranks) {
    std::unique_ptr<Mover> mover;
    std::vector<std::uint8_t> contact;
    std::optional<std::string> failure;
    try {
        mover = make_mover(options.mover, options.device);
        contact = mover->open(ranks.rank(), ranks.shape().ranks());
    } catch (const std::runtime_error& error) {
        failure = error.what();
    }
    if (ranks.any_failure(failure)) return nullptr;
    mover->join(ranks.exchange(contact));
    ranks.meet();
    return mover;
}

int run(const Arguments& arguments, const Ranks& ranks) {
    const Options& options = arguments.options;
    const std::unique_ptr<Mover> mover = join_movers(options, ranks);
    if (!mover) return kNotReady;
    if (mover->one_machine_only() && !ranks.on_one_machine()) {
        if (ranks.is_root())
            fmt::print(stderr,
                       "longshore dpu-bench: {} moves data within one machine; start all ranks on one\n",
                       mover->name());
        return kFailed;
    }
    const Session session = {options, ranks, *mover, choose(options.compute, ranks), arguments.spoilt_byte};
    bench::JsonLines json(ranks.is_root() ? options.json : "", arguments.append);
    const bench::Machine machine = bench::describe_machine();
    if (ranks.is_root()) {
        if (!arguments.append) bench::print(machine);
        print_settings(session);
        if (!arguments.append) json.write(bench::to_json(machine));
    }
    const auto tables = tables_of(options);
    Progress progress(arguments.progress && ranks.is_root(), tables.size() * options.sizes.size());
    for (const auto& [pattern, assignment] : tables)
        if (!measure_table(session, pattern, assignment, &json, &progress)) return kFailed;
    return 0;
}

int refuse_or_run(const Arguments& arguments) {
    int ranks = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const Shape shape = {ranks - arguments.workers, arguments.workers};
    std::string reason = refusal(shape, arguments.options.allow_equal);
    if (reason.empty() && arguments.options.nodes > shape.hosts)
        reason = "--nodes: there are fewer hosts than nodes";
    if (reason.empty()) {
        const Ranks all(arguments.workers);
        try {
            return run(arguments, all);
        } catch (
            const std::exception& error) {  // the others go on: no collective call, no destructor with one
            fmt::print(stderr, "longshore dpu-bench: {}\n", error.what());
            MPI_Abort(MPI_COMM_WORLD, kFailed);
        }
    }
    if (rank == 0) fmt::print(stderr, "longshore dpu-bench: {}\n", reason);
    return kUsage;
}

}  // namespace
}  // namespace longshore::dpu_bench

int main(int argc, char** argv) {
    longshore::dpu_bench::Arguments arguments;
    if (const int status = longshore::dpu_bench::parse(argc, argv, &arguments); status != -1) return status;
    MPI_Init(&argc, &argv);
    const int status = longshore::dpu_bench::refuse_or_run(arguments);
    MPI_Finalize();
    return status;
}
