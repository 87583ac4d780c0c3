#include "dpu_bench/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "bench/first_process.h"

namespace longshore::dpu_bench {

int parse(int argc, char** argv, Arguments* arguments) {
    CLI::App app(
        "The staged collectives of DPU-Bench with one number of workers, the highest ranks of the job.\n"
        "'longshore dpu-bench' starts this program.");
    add_options(&app, &arguments->options);
    app.add_option("--workers", arguments->workers, "how many of the ranks are workers")->required();
    app.add_flag("--append", arguments->append, "keep what the file of --json holds");
    app.add_flag("--progress", arguments->progress, "say on stdout which row comes next, for the command");
    // For tests: the result must be found wrong.
    app.add_option("--spoil-byte", arguments->spoilt_byte)->group("");
    try {
        app.parse(argc, argv);
        finish_options(&arguments->options);
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        const int status = app.exit(error, out, err);
        if (bench::is_first_process()) fmt::print("{}", out.str());
        if (bench::is_first_process()) fmt::print(stderr, "{}", err.str());
        return status == 0 ? 0 : 2;
    }
    return -1;
}

}  // namespace longshore::dpu_bench
