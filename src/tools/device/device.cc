// longshore device: starts longshore-device, which measures; sets two machines' results side by side; and
// makes a machine file of one, for 'longshore simulate'.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/output_file.h"
#include "base/text.h"
#include "sim/timed/machine_file.h"
#include "tools/paths.h"
#include "tools/pictures.h"
#include "tools/run/launch.h"
#include "tools/simulate/plan.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kDeviceProgram = "longshore-device";
constexpr const char* kDeviceScript = "device.py";

struct DeviceOptions {
    std::string to, listen, only, json, first, second, picture, base = "mpcdf-bf3", output;
    int repeats = 0;
    bool quick = false;
};

struct Measured {
    std::string unit;
    double mean = 0, least = 0, most = 0;
};
using Key = std::tuple<std::string, uint64_t, uint32_t>;  // test, bytes, threads

// What --json has written.
struct Results {
    nlohmann::json machine;
    std::vector<Key> order;
    std::map<Key, Measured> rows;
};

// "" or what is wrong with the file.
std::string read_results(const std::string& path, Results* results) {
    std::ifstream file(path);
    if (!file) return path + ": " + strerror(errno);
    try {
        const nlohmann::json all = nlohmann::json::parse(file);
        if (all.at("longshore_device") != 1) return path + ": written by another version of longshore device";
        results->machine = all.at("machine");
        for (const nlohmann::json& row : all.at("rows")) {
            const Key key{row.at("test"), row.at("bytes"), row.at("threads")};
            const std::vector<double> samples = row.at("samples");
            if (samples.empty()) return path + ": a row without samples";
            const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
            results->order.push_back(key);
            results->rows[key] = {row.at("unit"), row.at("mean"), *least, *most};
        }
    } catch (const nlohmann::json::exception& error) {
        return fmt::format("{}: not results of longshore device: {}", path, error.what());
    }
    return results->rows.empty() ? path + ": no results in it" : "";
}

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

std::string name_of(const nlohmann::json& machine) {
    return fmt::format("{}, {} cores", machine.value("processor", "?"), machine.value("cores", 0));
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
    for (const Key& key : a.order) {
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

// What of a machine file was measured: key, value and unit.
std::vector<std::pair<std::string, std::string>> measured_values(const Results& results) {
    std::vector<std::pair<std::string, std::string>> values;
    const auto add = [&](const char* key, const std::string& value) { values.emplace_back(key, value); };
    add("node.cores", std::to_string(results.machine.value("cores", 1)));
    add("node.sockets", std::to_string(results.machine.value("sockets", 1)));
    // The largest block is the furthest from the caches.
    double core_rate = 0, all_rate = 0, link_rate = 0, link_us = 0;
    // What the engine takes for a frame, and with a network what the system takes for a message.
    double taken_ns = 0, sent_ns = 0, message_ns = 0;
    constexpr std::pair<const char*, const char*> kSteps[] = {
        {"rank post", "rank.post"},           {"rank look", "rank.test"},
        {"service read", "service.read"},     {"service copy", "service.copy"},
        {"service finish", "service.finish"}, {"service look", "service.turn"}};
    for (const Key& key : results.order) {
        const auto& [test, bytes, threads] = key;
        const double mean = results.rows.at(key).mean;
        if (test == "process copy") core_rate = mean;
        if (test == "stream copy")
            all_rate = std::max(all_rate, mean / 2);  // STREAM counts read and written bytes
        if (test == "network to") link_rate = std::max(link_rate, mean);
        // Files of earlier versions have it with both ends asleep only.
        if ((test == "network latency" || test == "network polling") && bytes == 1) link_us = mean;
        if (test == "wake-up") add("service.wake_up", fmt::format("{:.3f} us", mean));
        if (test == "wake-up call") add("service.wake", fmt::format("{:.3f} us", mean));
        for (const auto& [name, value] : kSteps)
            if (test == name) add(value, fmt::format("{:.1f} ns", mean));
        if (test == "service message") taken_ns = mean;
        if (test == "service send") sent_ns = mean;
        if (test == "network messages") message_ns = 1e9 / mean;
        if (test == "word between cores") add("mpi.shared", fmt::format("{:.1f} ns", mean));
    }
    if (taken_ns > 0) add("service.message", fmt::format("{:.1f} ns", taken_ns + message_ns));
    if (sent_ns > 0) add("service.send", fmt::format("{:.1f} ns", sent_ns + message_ns));
    // One core cannot copy more than all of them.
    if (all_rate > 0) add("memory.rate", fmt::format("{:.3f} GB/s", std::max(all_rate, core_rate)));
    if (core_rate > 0) add("memory.core_rate", fmt::format("{:.3f} GB/s", core_rate));
    if (link_rate > 0) add("link.rate", fmt::format("{:.4f} GB/s", link_rate));
    if (link_us > 0)
        add("link.latency", fmt::format("{:.3f} us", link_us / 2));  // a link on either side of the switch
    return values;
}

int make_machine(const DeviceOptions& options) {
    Results results;
    if (const std::string wrong = read_results(options.first, &results); !wrong.empty())
        return refuse_device(wrong, kFailed);
    timed::Machine machine;
    if (const std::string wrong = timed::read_machine(machine_path(options.base), &machine); !wrong.empty())
        return refuse_device("--base " + options.base + ": " + wrong);
    for (auto& [key, source] : machine.sources)
        source = "not measured: as in " + machine.name + " (" + source + ")";
    std::string measured;
    for (const auto& [key, value] : measured_values(results)) {
        if (const std::string wrong = timed::set_value(&machine, key + "=" + value); !wrong.empty())
            return refuse_device(options.first + ": " + key + ": " + wrong, kFailed);
        machine.sources[key] = "measured by longshore device, " + results.machine.value("date", "");
        measured += (measured.empty() ? "" : ", ") + key;
    }
    machine.name = "measured";
    machine.title = name_of(results.machine);
    std::string text = fmt::format("# Made by 'longshore device machine' from {}, {}.\n# Measured: {}.\n",
                                   options.first, results.machine.value("date", ""), measured) +
                       timed::write_machine(machine);
    timed::Machine again;
    if (const std::string wrong = timed::parse_machine(text, "the machine", &again); !wrong.empty())
        return refuse_device(wrong, kFailed);
    if (options.output.empty()) {
        fmt::print("{}", text);
        return kOk;
    }
    std::string error;
    if (!write_output_file(options.output, text, &error))
        return refuse_device("cannot write " + error, kFailed);
    fmt::print("{}: {} of {} values measured; 'longshore simulate --machine {}' runs on it\n", options.output,
               measured_values(results).size(), timed::machine_values().size(), options.output);
    return kOk;
}

}  // namespace

void add_device(CLI::App& app, int* exit_code) {
    const auto options = std::make_shared<DeviceOptions>();
    CLI::App* command = app.add_subcommand("device", "Measure what this machine, a DPU or a network can do");
    set_usage(command, "longshore device [OPTIONS] | compare A.json B.json | machine FILE.json");
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

    CLI::App* machine = command->add_subcommand("machine", "Make a machine file for 'longshore simulate'");
    machine->add_option("FILE", options->first, "results that --json wrote")->required()->type_name("");
    machine
        ->add_option("--base", options->base,
                     "where the values come from that were not measured (default: mpcdf-bf3)")
        ->type_name("MACHINE");
    machine->add_option("-o,--output", options->output, "write it there (default: print it)")
        ->type_name("FILE");
    machine->callback([=] { *exit_code = make_machine(*options); });

    command->footer(R"(Examples:
  longshore device --json host.json                   what one core and all copy, wake-ups
  longshore device --listen 7000                      on the other machine, or the DPU ...
  longshore device --to dpu7:7000 --json dpu7.json    ... and here: the network between them, too
  longshore device compare host.json dpu.json -o battle.png
  longshore device machine host.json -o host.toml     for 'longshore simulate --machine host.toml'

On a DPU, where the longshore command is not, the program longshore-device takes the same options.
Exit code: 0 done; 1 something could not be measured, or a file is not what it should be; 2 bad option; 125 a part is missing.)");
    command->callback([=] {
        if (command->get_subcommands().empty()) *exit_code = start_measuring(*options);
    });
}

}  // namespace longshore::tools
