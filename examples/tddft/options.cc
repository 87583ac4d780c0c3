#include "options.h"

#include <fmt/format.h>

#include <map>

#include "../command_line.h"
#include "../names.h"

namespace {

const char* const kDescription =
    "Real-time propagation of Kohn-Sham states on a real-space grid, with the communication of a code such "
    "as\n"
    "Octopus: states over one direction of a grid of ranks, planes of the domain over the other.\n\n"
    "  mpirun -np 4 tddft\n"
    "  mpirun -np 4 tddft --grid 2x2 --size 32 --json tddft.json\n"
    "  mpirun -np 4 tddft --sleep --compute-ms 200 --allgather-block 12M --late-base-ms 300\n\n"
    "Exit status: 0 if all checks passed, 1 if not, 2 after a wrong command line.\n";

const std::map<std::string, Problem> kProblems = {{"well", Problem::kWell}, {"molecule", Problem::kMolecule}};

// "2x4" into numbers; one number for all of them, if that is allowed.
void parse_product(const std::string& option, const std::string& text, bool one_for_all, int* numbers,
                   std::size_t count) {
    std::vector<std::string> words = CLI::detail::split(text, 'x');
    if (one_for_all && words.size() == 1) words.resize(count, words[0]);
    bool right = words.size() == count;
    for (std::size_t i = 0; right && i < count; ++i)
        right = CLI::detail::lexical_cast(words[i], numbers[i]) && numbers[i] > 0 && numbers[i] <= 100000;
    if (!right)
        throw CLI::ValidationError(
            fmt::format("{}: '{}' is no product of {} positive numbers", option, text, count));
}

}  // namespace

const char* name_of(Problem problem) {
    return name_in(kProblems, problem);
}

int parse(int argc, char** argv, bool speak, Options& options) {
    CLI::App app(kDescription);
    std::string size, grid;
    double compute_ms = 0, late_ms = 0;
    Physics& physics = options.physics;
    Pace& pace = options.pace;
    app.add_option(
           "--problem", physics.problem,
           "well (default): a harmonic well, in which the dipole's path is known; molecule: two soft Coulomb "
           "atoms, which are more work for some ranks")
        ->transform(CLI::CheckedTransformer(kProblems))
        ->option_text("well|molecule");
    app.add_option("--size", size, "points: N or NxNyNz as 24x24x32 (default: 24)");
    app.add_option("--states", options.layout.states, "states")
        ->check(CLI::Range(1, 200))
        ->capture_default_str();
    app.add_option("--grid", grid,
                   "ranks over states and over planes: SxD (default: as square as it can be)");
    app.add_option("--steps", options.steps, "steps of a run")
        ->check(CLI::Range(3, 1000000))
        ->capture_default_str();
    app.add_option(
        "--allgathers", options.allgathers,
        "allgathers of a run, at least a step's number of them: more correct the potential within steps "
        "(default: one a step)");
    app.add_option("--repeats", options.repeats,
                   "runs, each from the begin; all are printed by least, mean and most")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--dt", physics.dt, "length of a step in atomic units")
        ->check(CLI::Range(1e-6, 1.0))
        ->capture_default_str();
    app.add_option("--spacing", physics.spacing, "of the points")
        ->check(CLI::Range(0.05, 2.0))
        ->capture_default_str();
    app.add_option("--interaction", physics.interaction, "strength of repulsion and exchange")
        ->check(CLI::Range(0.0, 10.0))
        ->capture_default_str();
    app.add_flag(
        "--sleep", pace.sleeps,
        "compute nothing: sleep as long, and exchange as much. For times where ranks have no core each");
    app.add_option("--compute-ms", compute_ms, "with --sleep: what a step's computing takes")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("--allgather-block", pace.allgather_bytes,
                   "bytes that a rank gives to an allgather, as 12M (default: its density)")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 30));
    app.add_flag("--allgatherv", options.allgatherv,
                 "gather by MPI_Allgatherv, as codes do whose blocks differ (here they do not)");
    app.add_option(
           "--late-base-ms", late_ms,
           "an allgather's own time: ranks that are late sleep 15 to 50 % of it before they enter (default: "
           "nobody is late)")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("--late-chance", pace.lateness.chance,
                   "that a rank is late in a call; two of three times with its node")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_option("--seed", pace.lateness.seed, "of the lateness")->capture_default_str();
    app.add_option("--ranks-per-node", pace.ranks_per_node, "for lateness (default: ranks that share memory)")
        ->check(CLI::PositiveNumber);
    app.add_option("--json", options.json,
                   "write everything that is printed, and each call's times, to this file");
    app.add_flag("!--no-progress", options.progress, "no progress bar (there is one on a terminal)");
    return read_command_line(app, argc, argv, speak, [&] {
        if (!size.empty()) parse_product("--size", size, true, options.layout.points.data(), 3);
        std::array<int, 2> ranks{0, 0};
        if (!grid.empty()) parse_product("--grid", grid, false, ranks.data(), 2);
        options.layout.state_ranks = ranks[0];
        options.layout.domain_ranks = ranks[1];
        if (options.allgathers == 0) options.allgathers = options.steps;
        if (options.allgathers < options.steps || options.allgathers > 100 * options.steps)
            throw CLI::ValidationError(
                fmt::format("--allgathers: {} for {} steps, needs one to a hundred in each",
                            options.allgathers, options.steps));
        if (!pace.sleeps && compute_ms > 0) throw CLI::ValidationError("--compute-ms needs --sleep");
        for (const int points : options.layout.points)
            if (points < 2 * kHalo)
                throw CLI::ValidationError(
                    fmt::format("--size: {} points are fewer than {}", points, 2 * kHalo));
        // Beyond this the Taylor series grows without limit.
        const double energy_max = 9.8 / (physics.spacing * physics.spacing);
        if (physics.dt * energy_max > 2.8)
            throw CLI::ValidationError(
                fmt::format("--dt: {} is too long for points {} apart, take {:.3g} at most", physics.dt,
                            physics.spacing, 1.4 / energy_max));
        pace.compute_seconds = compute_ms / 1e3;
        pace.lateness.base_seconds = late_ms / 1e3;
    });
}
