// longshore timeline: hands a trace to the script that draws it.
#include <fmt/core.h>

#include <memory>

#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

struct TimelineOptions {
    std::vector<std::string> traces, labels;
    std::string picture, from_ms, to_ms, title;
    bool text = false;
};

int timeline(const TimelineOptions& options) {
    for (const std::string& trace : options.traces) {
        if (is_file(trace)) continue;
        fmt::print(
            stderr,
            "longshore timeline: {}: no such file; make one with 'longshore run --trace FILE COMMAND'\n",
            trace);
        return kFailed;
    }
    const std::string script = script_path("timeline.py");
    if (!is_file(script)) {
        fmt::print(stderr, "longshore timeline: {} is not there; {}\n", script, missing_part_advice());
        return kNotReady;
    }
    // The virtual environment has matplotlib; the text form does without.
    std::vector<std::string> command = {find_python(), script};
    command.insert(command.end(), options.traces.begin(), options.traces.end());
    if (!options.picture.empty()) command.insert(command.end(), {"-o", options.picture});
    if (options.text) command.emplace_back("--text");
    if (!options.from_ms.empty()) command.insert(command.end(), {"--from", options.from_ms});
    if (!options.to_ms.empty()) command.insert(command.end(), {"--to", options.to_ms});
    if (!options.title.empty()) command.insert(command.end(), {"--title", options.title});
    for (const std::string& label : options.labels) command.insert(command.end(), {"--label", label});
    return execute(command);
}

}  // namespace

void add_timeline(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<TimelineOptions>();
    CLI::App* command = app.add_subcommand("timeline", "Draw a trace: who moved which blocks, and when");
    set_usage(command, "longshore timeline [OPTIONS] TRACE.json ...");
    command
        ->add_option("TRACE", options->traces,
                     "a trace made with 'longshore run --trace'; several stand one above the other")
        ->required();
    command
        ->add_option("-o,--output", options->picture,
                     "the picture to write (PNG, or SVG, which needs nothing more)")
        ->type_name("FILE");
    command->add_flag("--text", options->text, "print it as text");
    command->add_option("--from", options->from_ms, "begin there, in ms from the first event")
        ->type_name("MS")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--to", options->to_ms, "end there")->type_name("MS")->check(CLI::NonNegativeNumber);
    command->add_option("--title", options->title, "title of the picture")->type_name("TEXT");
    command->add_option("--label", options->labels, "what a trace is called; once for each, in their order")
        ->type_name("TEXT")
        ->allow_extra_args(false);
    command->footer(R"(Examples:
  longshore run --trace trace.json mpirun -np 4 ./program
  longshore timeline trace.json -o picture.png
  longshore timeline trace.json --text
  longshore timeline alone.json offloaded.json --label alone --label offloaded -o both.png

Pictures other than SVG need matplotlib, for python3 or where 'make venv' puts it, beside a build.
The trace also opens in Perfetto.
Exit code: 0 done; 1 no such trace, or it could not be drawn; 2 bad option; 125 a part is missing.)");
    command->callback([=] { *exit_code = timeline(*options); });
}

}  // namespace longshore::tools
