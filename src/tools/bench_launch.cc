#include "tools/bench_launch.h"

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

unsigned cpus_allowed() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

}  // namespace

std::string bench_program(const std::string& flavour) {
    return root_folder() + "/bin/longshore-bench-" + flavour;
}

std::string choose_flavour(const std::string& wanted, const char* command) {
    for (const char* flavour : kFlavours) {
        if (!wanted.empty() && wanted != flavour) continue;
        if (is_file(bench_program(flavour)) && !find_mpirun(flavour).empty()) return flavour;
    }
    for (const char* flavour : kFlavours) {
        if (!wanted.empty() && wanted != flavour) continue;
        const bool built = is_file(bench_program(flavour));
        const bool launchable = !find_mpirun(flavour).empty();
        const char* missing =
            built ? "its mpirun is not on your PATH"
                  : (launchable ? "longshore-bench is not built for it" : "it is not installed");
        fmt::print(stderr, "{}: {}: {}\n", command, flavour, missing);
    }
    fmt::print(stderr, "'make deps' installs both MPIs and 'make build' builds their benchmarks.\n");
    return "";
}

unsigned default_ranks() {
    return std::max(2u, cpus_allowed());
}

std::vector<std::string> bench_command(const std::string& flavour, unsigned ranks) {
    std::vector<std::string> words = {find_mpirun(flavour), "-np", std::to_string(ranks)};
    if (flavour == "openmpi") {
        // More ranks than cores must start, and a bound rank would keep its service process off its core.
        words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
        if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
    }
    words.push_back(bench_program(flavour));
    return words;
}

}  // namespace longshore::tools
