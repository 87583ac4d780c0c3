#include "dpu_bench/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace longshore::dpu_bench {
namespace {

std::vector<double> over_runs(const Row& row, double Times::*member) {
    std::vector<double> values;
    for (const Times& times : row.runs) values.push_back(times.*member);
    return values;
}

std::vector<double> over_runs(const Row& row, double (*formula)(const Times&)) {
    std::vector<double> values;
    for (const Times& times : row.runs) values.push_back(formula(times));
    return values;
}

template <typename Of>
double mean_of(const Row& row, Of of) {
    return mean(over_runs(row, of));
}

double mean_of_max(const Row& row) {
    std::vector<double> values;
    for (const Times& times : row.runs) values.push_back(std::max(times.pure_comm, times.compute));
    return mean(values);
}

std::string per_node(const Shape& shape, int nodes) {
    if (shape.workers % nodes == 0) return std::to_string(shape.workers / nodes);
    return fmt::format("{:.2g}", double(shape.workers) / nodes);
}

std::string shape_text(const Shape& shape) {
    return fmt::format("{} hosts, {} worker{}", shape.hosts, shape.workers, shape.workers == 1 ? "" : "s");
}

double between_nodes(const Session& session, Pattern pattern, Assignment assignment) {
    return share_between_nodes(pattern, assignment, session.ranks.shape(), session.options.nodes);
}

}  // namespace

void Progress::next(const std::string& what) {
    if (!on_) return;
    fmt::print("{}{} {} {}\n", kProgressMark, ++row_, rows_, what);
    std::fflush(stdout);
}

void print_settings(const Session& session) {
    const Options& options = session.options;
    const Shape& shape = session.ranks.shape();
    fmt::print("# shape   {}; {} emulated node{}, {} per node\n", shape_text(shape), options.nodes,
               options.nodes == 1 ? "" : "s", per_node(shape, options.nodes));
    fmt::print("# mover   {}\n", session.mover.description());
    fmt::print("# hosts   compute by {}\n", session.compute == Compute::kWork
                                                ? "arithmetic"
                                                : "sleeping, which leaves the workers the cores");
    fmt::print(
        "# means over {} run{} of up to {} iterations, warm-up {}; times in us,\n"
        "# efficiencies (paper, code, median: --help) in %\n",
        options.runs, options.runs == 1 ? "" : "s", options.iterations, options.warmup);
}

void print_header(const Session& session, Pattern pattern, Assignment assignment) {
    fmt::print("\n# {}, {}: {}; {:.0f} % of what the workers move goes between nodes\n", to_string(pattern),
               to_string(assignment), shape_text(session.ranks.shape()),
               100 * between_nodes(session, pattern, assignment));
    // Lines of at most 80 columns; the last three are efficiencies.
    fmt::print("{:>6} {:>4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>5} {:>5} {:>6}\n", "bytes", "iter", "reference",
               "pure comm", "compute", "max", "total", "paper", "code", "median");
    std::fflush(stdout);
}

void print_row(const Session& session, const Row& row) {
    fmt::print("{:>6} {:>4} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>5.1f} {:>5.1f} {:>6.1f}\n",
               show_size(row.bytes), row.iterations, mean_of(row, &Times::reference),
               mean_of(row, &Times::pure_comm), mean_of(row, &Times::compute), mean_of_max(row),
               mean_of(row, &Times::total), mean_of(row, efficiency_paper), mean_of(row, efficiency_code),
               mean_of(row, efficiency_median));
    std::fflush(stdout);
}

nlohmann::json to_json(const Session& session, const Row& row) {
    const Options& options = session.options;
    const Shape& shape = session.ranks.shape();
    return {{"type", "row"},
            {"pattern", to_string(row.pattern)},
            {"assignment", to_string(row.assignment)},
            {"bytes", row.bytes},
            {"hosts", shape.hosts},
            {"workers", shape.workers},
            {"nodes", options.nodes},
            {"workers_per_node", double(shape.workers) / options.nodes},
            {"mover", session.mover.name()},
            {"compute", to_string(session.compute)},
            {"more_ranks_than_cores", session.ranks.crowded()},
            {"runs", options.runs},
            {"iterations", row.iterations},
            {"share_between_nodes", between_nodes(session, row.pattern, row.assignment)},
            {"reference_us", over_runs(row, &Times::reference)},
            {"reference_loop_us", over_runs(row, &Times::reference_loop)},
            {"pure_comm_us", over_runs(row, &Times::pure_comm)},
            {"compute_us", over_runs(row, &Times::compute)},
            {"total_us", over_runs(row, &Times::total)},
            {"reference_median_us", over_runs(row, &Times::reference_median)},
            {"pure_comm_median_us", over_runs(row, &Times::pure_comm_median)},
            {"compute_median_us", over_runs(row, &Times::compute_median)},
            {"reference_mean_us", mean_of(row, &Times::reference)},
            {"pure_comm_mean_us", mean_of(row, &Times::pure_comm)},
            {"efficiency_paper", mean_of(row, efficiency_paper)},
            {"efficiency_code", mean_of(row, efficiency_code)},
            {"efficiency_median", mean_of(row, efficiency_median)}};
}

}  // namespace longshore::dpu_bench
