// A 3-D complex FFT of several variables on a 2-D grid of ranks, in the way of P3DFFT++'s pipelined branch:
// the transposes are MPI_Ialltoallv, several are open at once, and the rank computes the next variable
// meanwhile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checks.h"
#include "transform.h"

namespace {

constexpr double kErrorMax = 1e-10;

const char* const kDescription =
    "3-D complex FFT of several variables on a grid of ranks, with pipelined MPI_Ialltoallv transposes.\n"
    "One timed repeat is a forward and a backward transform of all variables.\n\n"
    "Overlap is the share of the communication time that is hidden behind computation:\n"
    "  overlap = max(0, 1 - exposed / alone)\n"
    "  exposed = time of a transform - compute time of the rank that computes longest\n"
    "  alone   = time of the same exchanges, in the same order and number open, with nothing computed\n"
    "Medians over the repeats; both kinds of run alternate.\n";

struct Options {
    Size3 size = {64, 64, 64};
    std::array<int, 2> grid = {0, 0};
    int variables = 4;
    int open_max = 0;
    int repeats = 10;
    std::uint64_t seed = 1;
    std::string json;
};

// "64" or "48x40x36"; "2x3".
template <std::size_t kParts>
std::array<int, kParts> parse_product(const std::string& text, bool one_for_all) {
    std::vector<int> numbers;
    for (const std::string& word : CLI::detail::split(text, 'x')) {
        int number = 0;
        if (!CLI::detail::lexical_cast(word, number) || number < 1 || text.back() == 'x')
            throw CLI::ValidationError(fmt::format("'{}' is not a product of positive whole numbers", text));
        numbers.push_back(number);
    }
    if (one_for_all && numbers.size() == 1) numbers.resize(kParts, numbers[0]);
    if (numbers.size() != kParts)
        throw CLI::ValidationError(fmt::format("'{}' needs {} numbers", text, kParts));
    std::array<int, kParts> result{};
    std::copy(numbers.begin(), numbers.end(), result.begin());
    return result;
}

// Returns -1 to go on, else the exit status.
int parse(int argc, char** argv, bool speak, Options& options) {
    CLI::App app(kDescription);
    std::string size = "64", grid;
    app.add_option("--size", size, "points: N or NxNyNz as 48x40x36")->capture_default_str();
    app.add_option("--grid", grid, "ranks: PxQ (default: as square as it can be)");
    app.add_option("--variables", options.variables, "variables in the pipeline")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--open", options.open_max, "exchanges started ahead (default: all variables)")
        ->check(CLI::Range(1, 1024));
    app.add_option("--repeats", options.repeats, "timed repeats")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "seed of the random fields")->capture_default_str();
    app.add_option("--json", options.json, "write the result to this file");
    try {
        app.parse(argc, argv);
        options.size = parse_product<3>(size, true);
        if (!grid.empty()) options.grid = parse_product<2>(grid, false);
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        const int status = app.exit(error, out, err);
        if (speak) fmt::print("{}", out.str());
        if (speak) fmt::print(stderr, "{}", err.str());
        return status == 0 ? 0 : 2;
    }
    if (options.open_max == 0) options.open_max = options.variables;
    return -1;
}

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

Times there_and_back(Transform& transform, Work work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const Times forward = transform.run(Direction::kForward, work);
    const Times backward = transform.run(Direction::kBackward, work);
    return {forward.total + backward.total, forward.post + backward.post, forward.wait + backward.wait};
}

struct Checked {
    double peak_error = 0;
    double round_trip_error = 0;
    std::uint64_t checksum = 0;
    bool passed() const { return peak_error <= kErrorMax && round_trip_error <= kErrorMax; }
};

Checked check(Transform& transform, std::uint64_t seed) {
    Checked result;
    for (int pass = 0; pass < 2; ++pass) {
        fill(transform, seed, pass);
        transform.run(Direction::kForward, Work::kFull);
        result.peak_error = std::max(result.peak_error, peak_error(transform, pass));
        result.checksum = result.checksum * 31 + checksum(transform, Direction::kForward);
        transform.run(Direction::kBackward, Work::kFull);
        result.round_trip_error = std::max(result.round_trip_error, round_trip_error(transform, seed, pass));
        result.checksum = result.checksum * 31 + checksum(transform, Direction::kBackward);
    }
    return result;
}

struct Measured {
    Series total, post, wait, compute, alone;
    double overlap() const {  // 0..1
        std::vector<double> exposed;
        for (std::size_t i = 0; i < total.largest.size(); ++i)
            exposed.push_back(total.largest[i] - compute.largest[i]);
        return std::max(0.0, 1 - median(exposed) / median(alone.largest));
    }
};

Measured measure(Transform& transform, int repeats, int ranks) {
    there_and_back(transform, Work::kFull);  // both warm up
    there_and_back(transform, Work::kExchangesOnly);
    std::vector<double> total, post, wait, compute, alone;
    for (int i = 0; i < repeats; ++i) {
        const Times times = there_and_back(transform, Work::kFull);
        total.push_back(times.total);
        post.push_back(times.post);
        wait.push_back(times.wait);
        compute.push_back(times.compute());
        alone.push_back(there_and_back(transform, Work::kExchangesOnly).total);
    }
    return {over_ranks(total, ranks), over_ranks(post, ranks), over_ranks(wait, ranks),
            over_ranks(compute, ranks), over_ranks(alone, ranks)};
}

void print(const Options& options, int ranks, const Checked& checked, const Measured& measured) {
    const auto ms = [](double seconds) { return seconds * 1e3; };
    fmt::print("fft {}x{}x{}, {} variables, {} open, {} ranks as {}x{}, {} repeats\n", options.size[0],
               options.size[1], options.size[2], options.variables, options.open_max, ranks, options.grid[0],
               options.grid[1], options.repeats);
    const auto& total = measured.total.largest;
    fmt::print("transform (there and back), ms: median {:.3f}  min {:.3f}  max {:.3f}\n", ms(median(total)),
               ms(*std::min_element(total.begin(), total.end())),
               ms(*std::max_element(total.begin(), total.end())));
    fmt::print("{:<34}{:>14}{:>14}\n", "of it, ms (median of repeats)", "max of ranks", "mean of ranks");
    const auto line = [&](const char* name, const Series& series) {
        fmt::print("  {:<32}{:>14.3f}{:>14.3f}\n", name, ms(median(series.largest)), ms(median(series.mean)));
    };
    line("compute", measured.compute);
    line("posting (MPI_Ialltoallv)", measured.post);
    line("waiting (MPI_Waitany)", measured.wait);
    line("exchanges alone, not part of it", measured.alone);
    fmt::print("overlap: {:.1f} % of the communication time hidden\n", 100 * measured.overlap());
    fmt::print("checksum: {:016x}\n", checked.checksum);
    fmt::print("peak error {:.2e}, round trip error {:.2e} (allowed {:.0e}): {}\n", checked.peak_error,
               checked.round_trip_error, kErrorMax, checked.passed() ? "all checks passed" : "FAILED");
}

nlohmann::json to_json(const Series& series) {
    return {{"largest_of_ranks", series.largest}, {"mean_of_ranks", series.mean}};
}

void write_json(const Options& options, int ranks, const Checked& checked, const Measured& measured) {
    const nlohmann::json result = {{"size", options.size},
                                   {"grid", options.grid},
                                   {"ranks", ranks},
                                   {"variables", options.variables},
                                   {"open_max", options.open_max},
                                   {"seed", options.seed},
                                   {"passed", checked.passed()},
                                   {"peak_error", checked.peak_error},
                                   {"round_trip_error", checked.round_trip_error},
                                   {"checksum", fmt::format("{:016x}", checked.checksum)},
                                   {"overlap_percent", 100 * measured.overlap()},
                                   {"seconds",
                                    {{"transform", to_json(measured.total)},
                                     {"compute", to_json(measured.compute)},
                                     {"post", to_json(measured.post)},
                                     {"wait", to_json(measured.wait)},
                                     {"exchanges_alone", to_json(measured.alone)}}}};
    std::ofstream(options.json) << result.dump(2) << '\n';
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
    Transform transform(MPI_COMM_WORLD, options.size, options.grid, options.variables, options.open_max);
    const Checked before = check(transform, options.seed);
    // A failed check makes any time worthless.
    if (!before.passed()) {
        if (rank == 0)
            fmt::print(stderr, "fft: FAILED before timing: peak error {:.2e}, round trip error {:.2e}\n",
                       before.peak_error, before.round_trip_error);
        return 1;
    }
    const Measured measured = measure(transform, options.repeats, ranks);
    const Checked after = check(transform, options.seed);
    const bool same = after.checksum == before.checksum;
    if (rank == 0) {
        print(options, ranks, after, measured);
        if (!same) fmt::print("FAILED: the checksum before the timed runs was {:016x}\n", before.checksum);
        if (!options.json.empty()) write_json(options, ranks, after, measured);
    }
    return after.passed() && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Options options;
    int status = parse(argc, argv, rank == 0, options);
    try {
        if (status == -1) status = run(options, rank, ranks);
    } catch (const std::exception& error) {
        fmt::print(stderr, "fft: rank {}: {}\n", rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return status;
}
