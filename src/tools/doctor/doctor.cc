// longshore doctor: what this machine has of all that Longshore needs, and what to do about the rest.
#include "tools/doctor/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/run/launch.h"
#include "tools/terminal.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

const char* word(Verdict verdict) {
    switch (verdict) {
        case Verdict::kGood:
            return "ok";
        case Verdict::kWarn:
            return "warn";
        case Verdict::kFail:
            return "fail";
    }
    return "";
}

long count(const Checks& checks, Verdict verdict) {
    return std::count_if(checks.begin(), checks.end(),
                         [&](const Check& one) { return one.verdict == verdict; });
}

void print_text(const Checks& checks) {
    const size_t columns = terminal_columns(stdout);
    for (const Check& one : checks) {
        std::string lines = fmt::format("{:<5} {:<15}  {}\n", word(one.verdict), one.name, one.found);
        if (!one.advice.empty()) lines += fmt::format("{:22}-> {}\n", "", one.advice);
        fmt::print("{}", wrapped(lines, columns));
    }
    const long fails = count(checks, Verdict::kFail);
    const long warnings = count(checks, Verdict::kWarn);
    fmt::print("\n{}: {} checks, {} failed, {} warning{}\n",
               fails != 0      ? "Longshore will not work here"
               : warnings != 0 ? "Longshore works here; see the warnings"
                               : "Longshore works here",
               checks.size(), fails, warnings, warnings == 1 ? "" : "s");
}

void print_json(const Checks& checks) {
    auto list = nlohmann::ordered_json::array();
    for (const Check& one : checks) {
        list.push_back({{"name", one.name},
                        {"verdict", word(one.verdict)},
                        {"found", one.found},
                        {"advice", one.advice}});
    }
    const nlohmann::ordered_json whole = {
        {"version", LONGSHORE_VERSION}, {"ok", count(checks, Verdict::kFail) == 0}, {"checks", list}};
    fmt::print("{}\n", whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int doctor(bool json) {
    Checks checks;
    for (const auto check :
         {check_machine, check_cores, check_mpis, check_parts, check_network, check_settings, check_dpu,
          check_peer_copy, check_shared_blocks, check_memory, check_limits, check_kernel_services}) {
        check(&checks);
    }
    if (json) {
        print_json(checks);
    } else {
        print_text(checks);
    }
    return count(checks, Verdict::kFail) == 0 ? kOk : kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, const Words*, int* exit_code) {
    const auto json = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("doctor", "Check whether this machine has what Longshore needs");
    set_usage(command, "longshore doctor [--json]");
    command->add_flag("--json", *json, "as JSON");
    command->footer(
        R"(Each line is a check: ok, warn (works, but not at its best) or fail, with what to do below it.

Examples:
  longshore doctor
  longshore doctor --json

Exit code: 0 if nothing failed, else 1.)");
    command->callback([=] { *exit_code = doctor(*json); });
}

}  // namespace longshore::tools
