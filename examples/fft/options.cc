#include "options.h"

#include <fmt/format.h>

#include <vector>

#include "../command_line.h"

namespace {

const char* const kDescription =
    "3-D complex FFT of several variables on a grid of ranks, with pipelined MPI_Ialltoallv transposes.\n"
    "One timed repeat is a forward and a backward transform of all variables.\n\n"
    "Overlap is the share of the communication time that is hidden behind computation:\n"
    "  overlap = max(0, 1 - exposed / alone)\n"
    "  exposed = time of a transform - compute time of the rank that computes longest\n"
    "  alone   = time of the same exchanges, in the same order and number open, with nothing computed\n"
    "Medians over the repeats; all kinds of run alternate.\n";

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

}  // namespace

int parse(int argc, char** argv, bool speak, Options& options) {
    CLI::App app(kDescription);
    std::string size = "64", grid, checks = "twice";
    app.add_option("--size", size, "points: N or NxNyNz as 48x40x36")->capture_default_str();
    app.add_option("--grid", grid, "ranks: PxQ (default: as square as it can be)");
    app.add_option("--variables", options.variables, "variables in the pipeline")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--open", options.open_max, "exchanges started ahead (default: all variables)")
        ->check(CLI::Range(1, 1024));
    app.add_option(
           "--mode", options.mode,
           "nonblocking (default): MPI_Ialltoallv, variables in a pipeline; blocking: MPI_Alltoallv, one "
           "variable after the other; both, in turns")
        ->transform(CLI::CheckedTransformer(kModes))
        ->option_text("nonblocking|blocking|both");
    app.add_option("--precision", options.precision, "of the numbers: double (default) or single")
        ->transform(CLI::CheckedTransformer(kPrecisions))
        ->option_text("double|single");
    app.add_option(
           "--work", options.work_factor,
           "compute each 1-D transform so many times, as a program that does more between its exchanges")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--check", checks, "before and after the timed repeats, or only before")
        ->check(CLI::IsMember({"twice", "once"}))
        ->capture_default_str();
    app.add_option("--repeats", options.repeats, "timed repeats")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "seed of the random fields")->capture_default_str();
    app.add_option("--json", options.json, "write the result to this file");
    app.add_option("--trace", options.trace,
                   "write what each rank did when to this file (longshore timeline draws it)");
    return read_command_line(app, argc, argv, speak, [&] {
        options.size = parse_product<3>(size, true);
        options.check_once = checks == "once";
        if (!grid.empty()) options.grid = parse_product<2>(grid, false);
        if (options.open_max == 0) options.open_max = options.variables;
    });
}
