// longshore run: sets the environment and becomes the command. Starts nothing that stays.
#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "base/settings.h"
#include "tools/paths.h"
#include "tools/run/launch.h"
#include "tools/run/mpi_library.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kRunFooter = R"(Examples:
  longshore run mpirun -np 8 ./program
  longshore run --service 2 --stats - -- mpirun -np 8 ./program --its-own-option
  longshore run --nodes 2 --trace trace.json mpirun -np 4 ./program
  longshore run --set chunk_bytes=128K mpirun -np 8 ./program

One line on stderr says which MPI the command uses and which shim serves it.

On other hosts, Open MPI hands on only what it is told to: add -x LD_PRELOAD and -x for each LONGSHORE_
variable to its mpirun. MPICH hands on the whole environment.

Exit code: that of COMMAND; 2 bad option or setting; 125 the shim is not built; 126 COMMAND cannot be
executed; 127 COMMAND not found.)";

struct RunOptions {
    LaunchOptions launch;
    bool quiet = false;
};

// Which MPI the command uses, as far as one can see before it runs, and whether its calls will be carried.
void tell_mpi(const Words& words, bool quiet) {
    Settings settings;
    std::vector<SettingError> errors;
    if (!parse_settings(environ, &settings, &errors) || !settings.offload) return;
    const auto use = find_mpi_use(words);
    if (use && !has_core(use->library.core)) {
        const std::string missing = use->library.core.empty()
                                        ? "there is no shim for it"
                                        : core_file(use->library.core) + " is not built";
        fmt::print(stderr, "longshore: {} uses {} ({}) and {}, so it runs with plain MPI; {}\n", use->program,
                   use->library.name, use->library.file, missing, core_advice(use->library.core));
    } else if (quiet) {
        return;
    } else if (use) {
        fmt::print(stderr, "longshore: {} uses {} ({}): shim {}\n", use->program, use->library.name,
                   use->library.file, core_file(use->library.core));
    } else if (!find_program(words.front()).empty()) {
        fmt::print(stderr,
                   "longshore: no word of the command is a program linked to an MPI: found at run time\n");
    }
}

int run(const Words& words, const RunOptions& options) {
    if (words.empty()) {
        fmt::print(stderr,
                   "longshore run: no COMMAND given\nFor example: longshore run mpirun -np 4 ./program\n");
        return kUsage;
    }
    if (const int code = export_settings(options.launch); code != kOk) return code;
    if (const int code = export_shim(); code != kOk) return code;
    tell_mpi(words, options.quiet);
    return execute(words);
}

}  // namespace

void add_run(CLI::App& app, const Words* words, int* exit_code) {
    const auto options = std::make_shared<RunOptions>();
    CLI::App* command =
        app.add_subcommand("run", "Run a program, usually mpirun, with its collectives offloaded");
    set_usage(command, "longshore run [OPTIONS] [--] COMMAND [ARGUMENTS]");
    command->footer(kRunFooter);
    command->add_flag("-q,--quiet", options->quiet, "do not say which MPI the command uses");
    add_launch_options(command, &options->launch);
    command->callback([=] { *exit_code = run(*words, *options); });
}

}  // namespace longshore::tools
