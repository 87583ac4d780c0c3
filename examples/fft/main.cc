// A 3-D complex FFT of several variables on a 2-D grid of ranks, in the way of P3DFFT++'s pipelined branch:
// the transposes are MPI_Ialltoallv, several are open at once, and the rank computes the next variable
// meanwhile. For comparison also in the way of its main branch: one variable after the other, MPI_Alltoallv.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "../abort_job.h"
#include "checks.h"
#include "options.h"
#include "transform.h"

namespace {

template <typename Real>
constexpr double kErrorMax = sizeof(Real) == sizeof(double) ? 1e-10 : 1e-5;

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// One quantity of each repeat: the maximum and the mean over the ranks (seconds; on rank 0).
struct Series {
    std::vector<double> largest, mean;
};

Series over_ranks(const std::vector<double>& mine, int ranks) {
    Series series{std::vector<double>(mine.size()), std::vector<double>(mine.size())};
    MPI_Reduce(mine.data(), series.largest.data(), int(mine.size()), MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine.data(), series.mean.data(), int(mine.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (double& value : series.mean) value /= ranks;
    return series;
}

template <typename Real>
Times there_and_back(Transform<Real>& transform, Way way, Work work, Trace* trace = nullptr) {
    MPI_Barrier(MPI_COMM_WORLD);
    transform.set_trace(trace);
    if (trace) trace->begin();
    Times times = transform.run(Direction::kForward, way, work);
    times += transform.run(Direction::kBackward, way, work);
    if (trace) trace->end();
    transform.set_trace(nullptr);
    return times;
}

struct Checked {
    double peak_error = 0;
    double round_trip_error = 0;
    std::uint64_t checksum = 0;
    bool same = true;  // the other way has given the same checksum
    double error_max = 0;
    bool passed() const { return peak_error <= error_max && round_trip_error <= error_max && same; }
};

template <typename Real>
Checked check(Transform<Real>& transform, std::uint64_t seed, Way way) {
    Checked result;
    result.error_max = kErrorMax<Real>;
    for (int pass = 0; pass < 2; ++pass) {
        fill(transform, seed, pass);
        transform.run(Direction::kForward, way, Work::kFull);
        result.peak_error = std::max(result.peak_error, peak_error(transform, pass));
        result.checksum = result.checksum * 31 + checksum(transform, Direction::kForward);
        transform.run(Direction::kBackward, way, Work::kFull);
        result.round_trip_error = std::max(result.round_trip_error, round_trip_error(transform, seed, pass));
        result.checksum = result.checksum * 31 + checksum(transform, Direction::kBackward);
    }
    return result;
}

template <typename Real>
Checked check(Transform<Real>& transform, const Options& options) {
    Checked result =
        check(transform, options.seed, options.nonblocking() ? Way::kNonblocking : Way::kBlocking);
    if (options.mode != Mode::kBoth) return result;
    const Checked blocking = check(transform, options.seed, Way::kBlocking);
    result.peak_error = std::max(result.peak_error, blocking.peak_error);
    result.round_trip_error = std::max(result.round_trip_error, blocking.round_trip_error);
    result.same = blocking.checksum == result.checksum;
    return result;
}

// One way's samples: an entry for each repeat.
struct Samples {
    std::vector<double> total, post, wait, other, compute, alone;

    template <typename Real>
    void take(Transform<Real>& transform, Way way, Trace* trace) {
        const Times times = there_and_back(transform, way, Work::kFull, trace);
        total.push_back(times.total);
        post.push_back(times.post);
        wait.push_back(times.wait);
        other.push_back(times.other);
        compute.push_back(times.compute());
        alone.push_back(there_and_back(transform, way, Work::kExchangesOnly).total);
    }
};

struct Measured {
    Series total, post, wait, other, compute, alone;
    double overlap() const {  // 0..1
        std::vector<double> exposed;
        for (std::size_t i = 0; i < total.largest.size(); ++i)
            exposed.push_back(total.largest[i] - compute.largest[i]);
        const double all = median(alone.largest);
        return all > 0 ? std::max(0.0, 1 - median(exposed) / all) : 0;
    }
};

Measured over_ranks(const Samples& samples, int ranks) {
    return {over_ranks(samples.total, ranks),   over_ranks(samples.post, ranks),
            over_ranks(samples.wait, ranks),    over_ranks(samples.other, ranks),
            over_ranks(samples.compute, ranks), over_ranks(samples.alone, ranks)};
}

struct Results {
    std::optional<Measured> nonblocking, blocking;
    Series compute_alone;
    double bytes_between_nodes = 0;  // of all ranks, in one transform there and back
};

template <typename Real>
Results measure(Transform<Real>& transform, const Options& options, int ranks, Trace* trace) {
    std::vector<Way> ways;
    if (options.nonblocking()) ways.push_back(Way::kNonblocking);
    if (options.blocking()) ways.push_back(Way::kBlocking);
    for (const Way way : ways) {  // all warm up
        there_and_back(transform, way, Work::kFull);
        there_and_back(transform, way, Work::kExchangesOnly);
    }
    there_and_back(transform, ways.front(), Work::kComputeOnly);
    std::array<Samples, 2> samples;
    std::vector<double> compute_alone;
    for (int i = 0; i < options.repeats; ++i) {
        for (const Way way : ways) samples[std::size_t(way)].take(transform, way, trace);
        compute_alone.push_back(there_and_back(transform, ways.front(), Work::kComputeOnly).total);
    }
    Results results;
    for (const Way way : ways)
        (way == Way::kBlocking ? results.blocking : results.nonblocking) =
            over_ranks(samples[std::size_t(way)], ranks);
    results.compute_alone = over_ranks(compute_alone, ranks);
    const double mine = double(transform.bytes_to_other_nodes());
    MPI_Allreduce(&mine, &results.bytes_between_nodes, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return results;
}

double ms(double seconds) {
    return seconds * 1e3;
}

void print_line(const char* name, const Series& series) {
    fmt::print("  {:<32}{:>14.3f}{:>14.3f}\n", name, ms(median(series.largest)), ms(median(series.mean)));
}

void print_way(const char* name, const Measured& measured, bool nonblocking) {
    const auto& total = measured.total.largest;
    fmt::print("{} (there and back), ms: median {:.3f}  min {:.3f}  max {:.3f}\n", name, ms(median(total)),
               ms(*std::min_element(total.begin(), total.end())),
               ms(*std::max_element(total.begin(), total.end())));
    fmt::print("{:<34}{:>14}{:>14}\n", "of it, ms (median of repeats)", "max of ranks", "mean of ranks");
    print_line("compute", measured.compute);
    if (nonblocking) {
        print_line("posting (MPI_Ialltoallv)", measured.post);
        print_line("waiting (MPI_Waitany)", measured.wait);
        print_line("other (MPI_Testany)", measured.other);
    } else {
        print_line("exchanging (MPI_Alltoallv)", measured.other);
    }
    print_line("exchanges alone, not part of it", measured.alone);
}

// The rows of table II of Graham et al., "Optimizing Application Performance With BlueField": the ranks'
// mean, in seconds. Its times are of ten transforms, these of one there and back (median of the repeats).
std::vector<std::pair<std::string, double>> table_rows(const Measured& measured) {
    std::vector<double> communication = measured.post.mean;
    for (std::size_t i = 0; i < communication.size(); ++i)
        communication[i] += measured.wait.mean[i] + measured.other.mean[i];
    return {{"communication", median(communication)},
            {"MPI_Waitany", median(measured.wait.mean)},
            {"MPI_Ialltoallv", median(measured.post.mean)},
            {"other", median(measured.other.mean)}};
}

void print_table(const Results& results) {
    fmt::print("{:<34}", "time in MPI, ms, mean of ranks");
    if (results.blocking) fmt::print("{:>14}", "blocking");
    if (results.nonblocking) fmt::print("{:>14}", "nonblocking");
    fmt::print("\n");
    const auto rows = table_rows(results.nonblocking ? *results.nonblocking : *results.blocking);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        fmt::print("  {:<32}", rows[i].first);
        for (const auto* measured : {&results.blocking, &results.nonblocking})
            if (*measured) fmt::print("{:>14.3f}", ms(table_rows(**measured)[i].second));
        fmt::print("\n");
    }
}

void print(const Options& options, int ranks, const Checked& checked, const Results& results) {
    fmt::print("fft {}x{}x{}, {} variables, {} open, {} ranks as {}x{}, {} precision, {} repeats\n",
               options.size[0], options.size[1], options.size[2], options.variables, options.open_max, ranks,
               options.grid[0], options.grid[1], name_in(kPrecisions, options.precision), options.repeats);
    if (options.work_factor > 1) fmt::print("each 1-D transform computed {} times\n", options.work_factor);
    if (results.nonblocking) print_way("transform", *results.nonblocking, true);
    if (results.blocking) print_way("blocking transform", *results.blocking, false);
    fmt::print("{:<34}{:>14.3f}{:>14.3f}\n", "computing alone, ms", ms(median(results.compute_alone.largest)),
               ms(median(results.compute_alone.mean)));
    print_table(results);
    if (results.nonblocking)
        fmt::print("overlap: {:.1f} % of the communication time hidden\n",
                   100 * results.nonblocking->overlap());
    fmt::print("checksum: {:016x}\n", checked.checksum);
    if (!checked.same) fmt::print("FAILED: blocking and nonblocking exchanges give different results\n");
    fmt::print("peak error {:.2e}, round trip error {:.2e} (allowed {:.0e}): {}\n", checked.peak_error,
               checked.round_trip_error, checked.error_max,
               checked.passed() ? "all checks passed" : "FAILED");
}

nlohmann::json to_json(const Series& series) {
    return {{"largest_of_ranks", series.largest}, {"mean_of_ranks", series.mean}};
}

nlohmann::json seconds_of(const Measured& measured, const Series& compute_alone) {
    return {{"transform", to_json(measured.total)},   {"compute", to_json(measured.compute)},
            {"post", to_json(measured.post)},         {"wait", to_json(measured.wait)},
            {"other", to_json(measured.other)},       {"exchanges_alone", to_json(measured.alone)},
            {"compute_alone", to_json(compute_alone)}};
}

nlohmann::json table_of(const Measured& measured) {
    nlohmann::json table;
    for (const auto& [name, seconds] : table_rows(measured)) table[name] = seconds;
    return table;
}

void write_json(const Options& options, int ranks, const Checked& checked, const Results& results) {
    nlohmann::json result = {{"size", options.size},
                             {"grid", options.grid},
                             {"ranks", ranks},
                             {"variables", options.variables},
                             {"open_max", options.open_max},
                             {"mode", name_in(kModes, options.mode)},
                             {"precision", name_in(kPrecisions, options.precision)},
                             {"work_factor", options.work_factor},
                             {"seed", options.seed},
                             {"passed", checked.passed()},
                             {"peak_error", checked.peak_error},
                             {"round_trip_error", checked.round_trip_error},
                             {"checksum", fmt::format("{:016x}", checked.checksum)},
                             {"bytes_between_nodes", results.bytes_between_nodes}};
    if (results.nonblocking) {
        result["overlap_percent"] = 100 * results.nonblocking->overlap();
        result["seconds"] = seconds_of(*results.nonblocking, results.compute_alone);
        result["seconds_in_mpi"] = table_of(*results.nonblocking);
    }
    if (results.blocking) {
        result["blocking"] = {{"seconds", seconds_of(*results.blocking, results.compute_alone)},
                              {"seconds_in_mpi", table_of(*results.blocking)}};
    }
    std::ofstream(options.json) << result.dump(2) << '\n';
}

template <typename Real>
int run_checked(const Options& options, int rank, int ranks) {
    Transform<Real> transform(MPI_COMM_WORLD, options.size, options.grid, options.variables, options.open_max,
                              options.work_factor);
    const Checked before = check(transform, options);
    // A failed check makes any time worthless.
    if (!before.passed()) {
        if (rank == 0)
            fmt::print(stderr, "fft: FAILED before timing: peak error {:.2e}, round trip error {:.2e}{}\n",
                       before.peak_error, before.round_trip_error,
                       before.same ? "" : ", blocking and nonblocking exchanges give different results");
        return 1;
    }
    Trace trace;
    const Results results = measure(transform, options, ranks, options.trace.empty() ? nullptr : &trace);
    if (!options.trace.empty() && !trace.write(options.trace, MPI_COMM_WORLD))
        throw std::runtime_error("cannot write " + options.trace);
    const Checked after = options.check_once ? before : check(transform, options);
    const bool same = after.checksum == before.checksum;
    if (rank == 0) {
        print(options, ranks, after, results);
        if (!same) fmt::print("FAILED: the checksum before the timed runs was {:016x}\n", before.checksum);
        if (!options.json.empty()) write_json(options, ranks, after, results);
    }
    return after.passed() && same ? 0 : 1;
}

int run(const Options& given, int rank, int ranks) {
    Options options = given;
    if (options.grid[0] == 0) {
        options.grid = {0, 0};
        MPI_Dims_create(ranks, 2, options.grid.data());
    }
    if (options.grid[0] * options.grid[1] != ranks) {
        if (rank == 0)
            fmt::print(stderr, "fft: a grid of {}x{} needs {} ranks, there are {}\n", options.grid[0],
                       options.grid[1], options.grid[0] * options.grid[1], ranks);
        return 2;
    }
    return options.precision == Precision::kSingle ? run_checked<float>(options, rank, ranks)
                                                   : run_checked<double>(options, rank, ranks);
}

}  // namespace

int main(int argc, char** argv) {
    abort_job_on_exceptions("fft");
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
