#include "options.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "../command_line.h"

namespace {

const char* const kDescription =
    "Two-dimensional gas dynamics on a moving unstructured mesh, with MPI and OpenMP. Parts of each cycle "
    "can be handed\n"
    "to a process beside each rank: variant v2 hands over lengths and masses, v1 also work and energy.\n\n"
    "  mpirun -np 2 hydro --problem sedovflat --cycles 100\n"
    "  mpirun -np 2 hydro --problem sedovflat --cycles 100 --offload mpmd : -np 2 hydro_peer\n"
    "  longshore run mpirun -np 2 hydro --problem sedovflat --cycles 100 --offload tasks\n\n"
    "Exit status: 0 if all checks passed, 1 if not, 2 after a wrong command line.\n";

std::string list_of_problems() {
    std::string list = "problems:\n";
    for (const Problem& one : problems()) list += fmt::format("  {:<12} {}\n", one.name, one.about);
    return list;
}

void parse_zones(const std::string& text, Problem& problem) {
    int x = 0, y = 0, end = 0;
    if (std::sscanf(text.c_str(), "%dx%d%n", &x, &y, &end) != 2 || std::size_t(end) != text.size() || x < 1 ||
        y < 1)
        throw CLI::ValidationError(fmt::format("--zones: '{}' is no size of a mesh, such as 48x90", text));
    problem.zones_x = x;
    problem.zones_y = y;
}

}  // namespace

int parse(int argc, char** argv, bool speak, Options& options) {
    CLI::App app(kDescription);
    app.footer(list_of_problems());
    std::string problem = "leblanc", zones;
    double time_end = -1;
    int chunk = 0;
    std::vector<std::string> names;
    for (const Problem& one : problems()) names.push_back(one.name);
    app.add_option("--problem", problem, "which one; they are listed below")
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    app.add_option("--zones", zones, "zones in x and y, as 48x90 (default: the problem's)");
    app.add_option("--time", time_end, "time to end at (default: the problem's)")->check(CLI::PositiveNumber);
    app.add_option("--cycles", options.cycles_max,
                   "end after so many cycles at the latest (default: no limit)")
        ->check(CLI::PositiveNumber);
    app.add_option("--chunk", chunk, "zones that a thread takes at once (default: the problem's)")
        ->check(CLI::PositiveNumber);
    app.add_option("--warm-up", options.warm_up, "first cycles that are not counted in times")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    app.add_option("--offload", options.way,
                   "how kernels are handed over: none (default); inline, to the rank itself; mpmd, to a "
                   "hydro_peer beside "
                   "each rank; tasks, to Longshore's task processes; auto, to peers if there are any, else "
                   "as tasks, what they finish "
                   "before it is needed")
        ->transform(CLI::CheckedTransformer(kWays))
        ->option_text("none|inline|mpmd|tasks|auto");
    app.add_option("--variant", options.variant,
                   "v1 (default): lengths, masses and energy are handed over; v2: lengths and masses")
        ->transform(CLI::CheckedTransformer(kVariants))
        ->option_text("v1|v2");
    app.add_option(
           "--slow", options.slow,
           "let tasks take so many times as long, as on a slower core (peers have an option of that name)")
        ->check(CLI::Range(1.0, 1000.0))
        ->capture_default_str();
    app.add_flag("--keep", options.keep,
                 "give tasks what never changes once (longshore_keep), for task processes of another node");
    app.add_option("--json", options.json,
                   "write everything that is printed, and each cycle's time, to this file");
    app.add_flag("!--no-progress", options.progress, "no progress bar (there is one on a terminal)");
    return read_command_line(app, argc, argv, speak, [&] {
        options.problem = *find_problem(problem);
        if (!zones.empty()) parse_zones(zones, options.problem);
        if (time_end > 0) options.problem.time_end = time_end;
        if (chunk > 0) options.problem.chunk = chunk;
    });
}

int parse_peer(int argc, char** argv, bool speak, double& slow) {
    CLI::App app(
        "A peer of a rank of hydro: it computes the kernels that the rank hands over. Started beside it:\n\n"
        "  mpirun -np N hydro --offload mpmd ... : -np N hydro_peer\n");
    app.add_option("--slow", slow, "let kernels take so many times as long, as on a slower core")
        ->check(CLI::Range(1.0, 1000.0))
        ->capture_default_str();
    return read_command_line(app, argc, argv, speak, [] {});
}
