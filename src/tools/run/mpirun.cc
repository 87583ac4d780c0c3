#include "tools/run/mpirun.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "tools/paths.h"

namespace longshore::tools {
namespace {

// Debian names each mpirun after its flavour; elsewhere the plain name is asked whose it is.
std::string find_mpirun(const std::string& flavour) {
    if (const std::string own = find_program("mpirun." + flavour); !own.empty()) return own;
    const std::string plain = find_program("mpirun");
    if (plain.empty()) return "";
    const std::string version = capture({plain, "--version"}).text;
    const bool open_mpi = version.find("Open MPI") != version.npos || version.find("OpenRTE") != version.npos;
    return open_mpi == (flavour == "openmpi") ? plain : "";
}

}  // namespace

std::string flavoured_program(const std::string& name, const std::string& flavour) {
    return root_folder() + "/bin/" + name + "-" + flavour;
}

std::vector<std::string> ready_flavours(const std::string& subcommand, const std::string& program,
                                        const std::string& wanted) {
    std::vector<std::string> ready;
    for (const char* flavour : kFlavours) {
        if (!wanted.empty() && wanted != flavour) continue;
        if (is_file(flavoured_program(program, flavour)) && !find_mpirun(flavour).empty())
            ready.emplace_back(flavour);
    }
    if (!ready.empty()) return ready;
    for (const char* flavour : kFlavours) {
        if (!wanted.empty() && wanted != flavour) continue;
        const bool built = is_file(flavoured_program(program, flavour));
        const bool launchable = !find_mpirun(flavour).empty();
        const std::string missing =
            built ? "its mpirun is not on your PATH"
                  : (launchable ? program + " is not built for it" : "it is not installed");
        fmt::print(stderr, "longshore {}: {}: {}\n", subcommand, flavour, missing);
    }
    fmt::print(stderr, "Install the MPI with its headers; 'make build' then builds its benchmark.\n");
    return {};
}

std::string choose_flavour(const std::string& subcommand, const std::string& program,
                           const std::string& wanted) {
    const std::vector<std::string> ready = ready_flavours(subcommand, program, wanted);
    return ready.empty() ? "" : ready.front();
}

unsigned default_ranks() {
    cpu_set_t set;
    const int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return std::max(2u, static_cast<unsigned>(cpus));
}

std::vector<std::string> mpirun_words(const std::string& flavour) {
    std::vector<std::string> launch = {find_mpirun(flavour)};
    if (flavour == "openmpi") {
        // More ranks than cores must start, and a bound rank would keep its service process off its core.
        launch.insert(launch.end(), {"--oversubscribe", "--bind-to", "none"});
        if (geteuid() == 0) launch.emplace_back("--allow-run-as-root");
    }
    return launch;
}

std::vector<std::string> mpirun_command(const std::string& flavour, unsigned ranks) {
    std::vector<std::string> launch = mpirun_words(flavour);
    launch.insert(launch.begin() + 1, {"-np", std::to_string(ranks)});
    return launch;
}

}  // namespace longshore::tools
