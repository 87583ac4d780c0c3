// longshore run: sets the environment and becomes the command. Starts nothing that stays.
#include <fmt/core.h>

#include <memory>

#include "tools/launch.h"
#include "tools/paths.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  longshore run mpirun -np 8 ./program
  longshore run --service 2 --stats - -- mpirun -np 8 ./program --its-own-option
  longshore run --nodes 2 --trace trace.json mpirun -np 4 ./program
  longshore run --set chunk_bytes=128K mpirun -np 8 ./program

On other hosts, Open MPI hands on only what it is told to: add -x LD_PRELOAD and -x for each LONGSHORE_
variable to its mpirun. MPICH hands on the whole environment.

Exit code: that of COMMAND; 2 bad option or setting; 125 the shim is not built; 126 COMMAND cannot be
executed; 127 COMMAND not found.)";

int run(const Words& words, const LaunchOptions& options) {
    if (words.empty()) {
        fmt::print(stderr,
                   "longshore run: no COMMAND given\nFor example: longshore run mpirun -np 4 ./program\n");
        return kUsage;
    }
    if (const int code = export_settings(options); code != kOk) return code;
    if (const int code = export_shim(); code != kOk) return code;
    return execute(words);
}

}  // namespace

void add_run(CLI::App& app, const Words* words, int* exit_code) {
    const auto options = std::make_shared<LaunchOptions>();
    CLI::App* command =
        app.add_subcommand("run", "Run a program, usually mpirun, with its collectives offloaded");
    set_usage(command, "longshore run [OPTIONS] [--] COMMAND [ARGUMENTS]");
    command->footer(kFooter);
    add_launch_options(command, options.get());
    command->callback([=] { *exit_code = run(*words, *options); });
}

}  // namespace longshore::tools
