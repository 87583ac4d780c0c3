// longshore device: starts longshore-device, which measures; draws its results, or sets two machines' side by
// side; and makes a machine file of one, for 'longshore simulate'.
#include "tools/command.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "base/output_file.h"
#include "base/text.h"
#include "device/machine_maker.h"
#include "device/results.h"
#include "tools/other_programs.h"
#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kDeviceProgram = "longshore-device";
constexpr const char* kDeviceScript = "device.py";

struct DeviceOptions {
    std::string to, listen, only, json, first, second, picture, output;
    MachineFiles files{"", "", "", "", "mpcdf-bf3"};
    int repeats = 0;
    bool quick = false;
};

int refuse_device(const std::string& what, int code = kUsage) {
    fmt::print(stderr, "longshore device: {}\n", what);
    if (code == kUsage) fmt::print(stderr, "See 'longshore device --help'.\n");
    return code;
}

int start_measuring(const DeviceOptions& options) {
    const std::string program = root_folder() + "/bin/" + kDeviceProgram;
    if (!is_file(program)) return refuse_device(program + " is missing: " + missing_part_advice(), kNotReady);
    std::vector<std::string> command{program};
    const auto pass_on = [&](const char* name, const std::string& value) {
        if (!value.empty()) command.insert(command.end(), {name, value});
    };
    pass_on("--to", options.to);
    pass_on("--listen", options.listen);
    pass_on("--only", options.only);
    pass_on("--json", options.json);
    if (options.repeats != 0) pass_on("--repeats", std::to_string(options.repeats));
    if (options.quick) command.emplace_back("--quick");
    return execute(command);
}

// Of rates more is better, of times less.
bool is_time(const std::string& unit) {
    return unit == "us" || unit == "ns";
}

int compare(const DeviceOptions& options) {
    if (!options.picture.empty())
        if (const int code = can_draw("device compare", script_path(kDeviceScript)); code != kOk) return code;
    Results a, b;
    for (const auto& [path, results] : {std::pair{options.first, &a}, std::pair{options.second, &b}}) {
        if (const std::string wrong = read_results(path, results); !wrong.empty())
            return refuse_device(wrong, kFailed);
    }
    fmt::print("# A: {}: {}\n# B: {}: {}\n# means [least .. most]; B/A: how many times as quick B is\n\n",
               options.first, name_of(a.machine), options.second, name_of(b.machine));
    fmt::print("{:<20} {:>8} {:>7} {:>30} {:>30} {:>6}\n", "test", "bytes", "threads", "A", "B", "B/A");
    double product = 0;
    int both = 0;
    for (const ResultKey& key : a.order) {
        const auto& [test, bytes, threads] = key;
        const Measured& one = a.rows[key];
        const auto other = b.rows.find(key);
        const auto shown = [](const Measured& m) {
            return fmt::format("{:.4g} [{:.4g} .. {:.4g}] {:<4}", m.mean, m.least, m.most, m.unit);
        };
        std::string there = "-", ratio = "-";
        if (other != b.rows.end()) {
            there = shown(other->second);
            const double quicker =
                is_time(one.unit) ? one.mean / other->second.mean : other->second.mean / one.mean;
            ratio = fmt::format("{:.2f}", quicker);
            product += std::log(quicker);
            ++both;
        }
        fmt::print("{:<20} {:>8} {:>7} {:>30} {:>30} {:>6}\n", test, bytes == 0 ? "-" : show_size(bytes),
                   threads, shown(one), there, ratio);
    }
    if (both == 0) return refuse_device("the two files have no row in common", kFailed);
    fmt::print("\n{} rows in both; geometric mean of B/A: {:.2f}\n", both, std::exp(product / both));
    if (options.picture.empty()) return kOk;
    return run_and_wait(
        {find_python(), script_path(kDeviceScript), options.first, options.second, options.picture});
}

int draw(const DeviceOptions& options) {
    if (const int code = can_draw("device draw", script_path(kDeviceScript)); code != kOk) return code;
    Results results;
    if (const std::string wrong = read_results(options.first, &results); !wrong.empty())
        return refuse_device(wrong, kFailed);
    return run_and_wait({find_python(), script_path(kDeviceScript), options.first, options.picture});
}

int write_machine_file(const DeviceOptions& options) {
    MadeMachine made;
    if (const std::string wrong = make_machine(options.files, &made); !wrong.empty())
        return refuse_device(wrong, wrong.starts_with("--") ? kUsage : kFailed);
    if (options.output.empty()) {
        fmt::print("{}", made.text);
        return kOk;
    }
    std::string error;
    if (!write_output_file(options.output, made.text, &error))
        return refuse_device("cannot write " + error, kFailed);
    size_t values = 0;
    for (const timed::MachineValue& value : timed::machine_values())
        values += made.machine.has_dpu() || !value.is_of_dpu() ? 1 : 0;
    fmt::print("{0}: {1} of {2} values measured, {3}; 'longshore simulate --machine {0}' runs on it\n",
               options.output, made.measured, values,
               made.machine.has_dpu() ? "with a DPU" : "no DPU, so service processes are on hosts");
    return kOk;
}

void add_device(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<DeviceOptions>();
    CLI::App* command = app.add_subcommand("device", about("device"));
    set_usage(command,
              "longshore device [OPTIONS] | compare A.json B.json | draw FILE.json | machine FILE.json");
    auto* to =
        command->add_option("--to", options->to, "the far end, where 'longshore device --listen PORT' runs")
            ->option_text("HOST:PORT");
    auto* listen =
        command
            ->add_option("--listen", options->listen,
                         "be the far end for one near end; it moves bytes for whoever connects first")
            ->option_text("[ADDRESS:]PORT")
            ->excludes(to);
    command
        ->add_option("--only", options->only,
                     "some of memcpy, process, stream, signals, service, register, network (default: all)")
        ->type_name("TESTS")
        ->excludes(listen);
    command->add_option("--repeats", options->repeats, "samples of each row (default: 10, of the network 7)")
        ->check(CLI::Range(1, 1000))
        ->type_name("N");
    command->add_flag("--quick", options->quick, "some seconds: it shows that all works");
    command->add_option("--json", options->json, "write all samples")->type_name("FILE");

    CLI::App* side = command->add_subcommand("compare", "Set the results of two machines side by side");
    side->add_option("A", options->first, "results that --json wrote")->required()->type_name("");
    side->add_option("B", options->second, "those of the other machine")->required()->type_name("");
    side->add_option("-o,--output", options->picture, "draw them (PNG)")->type_name("FILE");
    side->callback([=] { *exit_code = compare(*options); });

    CLI::App* one = command->add_subcommand("draw", "Draw the results of one machine");
    one->add_option("FILE", options->first, "results that --json wrote")->required()->type_name("");
    one->add_option("-o,--output", options->picture, "the picture (PNG)")->required()->type_name("FILE");
    one->callback([=] { *exit_code = draw(*options); });

    CLI::App* machine = command->add_subcommand("machine", "Make a machine file for 'longshore simulate'");
    MachineFiles& files = options->files;
    machine->add_option("FILE", files.host, "results of a host, that --json wrote")
        ->required()
        ->type_name("");
    machine
        ->add_option("--dpu", files.dpu,
                     "results of its DPU, or 'base': as --base has it (default: a machine without a DPU)")
        ->type_name("FILE");
    machine
        ->add_option("--host-dpu", files.host_dpu,
                     "results of the host, with its DPU as the far end (--to): the bus between them")
        ->type_name("FILE");
    machine
        ->add_option("--network", files.network,
                     "results of a host, with another one as the far end (default: those that FILE has)")
        ->type_name("FILE");
    machine
        ->add_option("--base", files.base,
                     "where the values come from that were not measured (default: mpcdf-bf3)")
        ->type_name("MACHINE");
    machine->add_option("-o,--output", options->output, "write it there (default: print it)")
        ->type_name("FILE");
    machine->callback([=] { *exit_code = write_machine_file(*options); });

    command->footer(R"(Examples:
  longshore device --json host.json                   what one core and all copy, wake-ups
  longshore device --listen 7000                      on the other machine, or the DPU ...
  longshore device --to dpu7:7000 --json dpu7.json    ... and here: the network between them, too
  longshore device compare host.json dpu.json -o battle.png
  longshore device draw host.json -o host.png         one machine's curves
  longshore device machine host.json -o host.toml     for 'longshore simulate --machine host.toml'
  longshore device machine host.json --dpu dpu.json --host-dpu dpu7.json --network net.json -o host.toml

On a DPU, where the longshore command is not, the program longshore-device takes the same options.
Exit code: 0 done; 1 something could not be measured, or a file is not what it should be; 2 bad option; 125 a part is missing.)");
    command->callback([=] {
        if (command->get_subcommands().empty()) *exit_code = start_measuring(*options);
    });
}

}  // namespace
}  // namespace longshore::tools

int main(int argc, char** argv) {
    using namespace longshore::tools;
    const Subcommand command{"device", add_device};
    return run_command({&command, 1}, argc, argv);
}
