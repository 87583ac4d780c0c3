#include "model/machine.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace longshore::timed {
namespace {

constexpr uint64_t kCountMax = 1u << 20, kRateMax = 1'000'000'000'000'000u, kTimeMax = 1'000'000'000'000'000u,
                   kBytesMax = 1u << 30, kSharesMax = 1'000'000;

constexpr MachineValue count(const char* key, uint64_t Machine::*at, uint64_t least, const char* meaning) {
    return {key, Unit::kCount, at, least, kCountMax, meaning};
}
constexpr MachineValue rate(const char* key, uint64_t Machine::*at, const char* meaning) {
    return {key, Unit::kRate, at, 1'000'000, kRateMax, meaning};
}
constexpr MachineValue time(const char* key, Time Machine::*at, const char* meaning) {
    return {key, Unit::kTime, at, 0, kTimeMax, meaning};
}

constexpr MachineValue kValues[] = {
    count("node.cores", &Machine::cores, 1, "cores of a host"),
    rate("memory.rate", &Machine::memory_rate, "bytes that all cores of a host together copy in a second"),
    rate("memory.core_rate", &Machine::memory_core_rate, "bytes that one core copies in a second"),
    rate("pcie.rate", &Machine::pcie_rate, "between a host's memory and its network card, in each direction"),
    time("pcie.latency", &Machine::pcie_latency, "between a host's memory and its network card"),
    rate("link.rate", &Machine::link_rate, "of a card's link, in each direction"),
    time("link.latency", &Machine::link_latency, "from a card to the switch, or from there to a card"),
    time("link.gap", &Machine::link_gap, "a message keeps a link busy at least for so long"),
    count("switch.ports", &Machine::switch_ports, 2, "nodes that the one switch connects at full rate"),
    time("switch.latency", &Machine::switch_latency, "through the switch"),
    time("rank.post", &Machine::rank_post, "in the call that starts a collective, on a rank's core"),
    time("rank.post_each", &Machine::rank_post_each,
         "... and for each rank of the group, where blocks have "
         "sizes of their own"),
    time("rank.test", &Machine::rank_test, "a look whether a collective is complete"),
    time("rank.wake_up", &Machine::rank_wake_up, "until a rank that waits sees what has changed"),
    time("service.turn", &Machine::service_turn, "a service process's turn, with a look at its network"),
    time("service.message", &Machine::service_message, "taking in a message of another service process"),
    time("service.send", &Machine::service_send, "sending one"),
    time("service.read", &Machine::service_read, "finding the next block to read, and starting the read"),
    time("service.copy", &Machine::service_copy, "the same of a copy between two ranks of the node"),
    time("service.finish", &Machine::service_finish, "taking in the end of a read or copy"),
    time("service.wake", &Machine::service_wake, "waking another process"),
    time("service.wake_up", &Machine::service_wake_up, "until a service process that slept runs"),
    time("service.spin", &Machine::service_spin, "without work before it sleeps"),
    count("dpu.cores", &Machine::dpu_cores, 1, "cores of a DPU"),
    rate("dpu.memory_rate", &Machine::dpu_memory_rate,
         "of a DPU's memory, for what the network brings or "
         "takes"),
    time("dpu.message", &Machine::dpu_message,
         "an active message between a host's program and its DPU's, "
         "beside pcie.latency, with the receiver's part"),
    time("dpu.session", &Machine::dpu_session, "the same over a rank's session with its stand-in (a socket)"),
    time("dpu.stand_in_post", &Machine::dpu_stand_in_post, "a stand-in checks and posts a collective"),
    time("dpu.stand_in_post_each", &Machine::dpu_stand_in_post_each, "... and for each rank of the group"),
    time("dpu.stand_in_test", &Machine::dpu_stand_in_test, "a stand-in's look whether it is complete"),
    time("dpu.stand_in_wake_up", &Machine::dpu_stand_in_wake_up, "until a stand-in that slept runs"),
    time("mpi.send", &Machine::mpi_send, "starting a send in the host's MPI"),
    time("mpi.receive", &Machine::mpi_receive, "starting a receive there"),
    time("mpi.take", &Machine::mpi_take, "taking in a message or an end there, with finding what it is for"),
    time("mpi.read", &Machine::mpi_read, "starting the read of a long message"),
    time("mpi.shared", &Machine::mpi_shared, "until a rank of the same node sees a message"),
    time("mpi.thread_wake_up", &Machine::mpi_thread_wake_up,
         "until a progress thread that slept runs, on its rank's core"),
    {"mpi.eager", Unit::kBytes, &Machine::mpi_eager, 0, kBytesMax,
     "messages of at most so many bytes go at once"},
    time("jitter.entry", &Machine::jitter_entry, "ranks enter a collective within so long of each other"),
    {"jitter.late", Unit::kShare, &Machine::jitter_late, 0, kSharesMax,
     "so many of all ranks enter a collective later than that"},
    time("jitter.late_by", &Machine::jitter_late_by,
         "... by so much on average (the times are distributed exponentially)"),
    {"jitter.cost", Unit::kShare, &Machine::jitter_cost, 0, kSharesMax,
     "steps of programs take so much more or less"},
};

constexpr UnitName kUnits[] = {
    {Unit::kTime, "ps", 1},      {Unit::kTime, "ns", 1e3},       {Unit::kTime, "us", 1e6},
    {Unit::kTime, "ms", 1e9},    {Unit::kTime, "s", 1e12},       {Unit::kRate, "MB/s", 1e6},
    {Unit::kRate, "GB/s", 1e9},  {Unit::kRate, "Mb/s", 1e6 / 8}, {Unit::kRate, "Gb/s", 1e9 / 8},
    {Unit::kBytes, "B", 1},      {Unit::kBytes, "KiB", 1024},    {Unit::kBytes, "MiB", 1 << 20},
    {Unit::kShare, "%", 10'000},
};

std::string number_text(double number) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", number);
    return text;
}

}  // namespace

std::span<const MachineValue> machine_values() {
    return kValues;
}

const MachineValue* find_machine_value(std::string_view key) {
    for (const MachineValue& value : kValues)
        if (key == value.key) return &value;
    return nullptr;
}

std::span<const UnitName> unit_names() {
    return kUnits;
}

std::string names_of(Unit unit) {
    std::string all, last;
    for (const UnitName& one : kUnits) {
        if (one.unit != unit) continue;
        if (!last.empty()) all += (all.empty() ? "" : ", ") + last;
        last = one.name;
    }
    return all.empty() ? last : all + " or " + last;
}

std::string convert(const MachineValue& value, double number, std::string_view unit, uint64_t* out) {
    double factor = value.unit == Unit::kCount && unit.empty() ? 1 : 0;
    for (const UnitName& one : kUnits)
        if (one.unit == value.unit && unit == one.name) factor = one.factor;
    if (factor == 0) {
        const std::string names = names_of(value.unit);
        const std::string given = unit.empty() ? "no unit" : "the unit \"" + std::string(unit) + "\"";
        return std::string(value.key) + " has " + given +
               (names.empty() ? "; it is a number without one" : "; it is given in " + names);
    }
    const double kept = number * factor;
    if (!(kept >= static_cast<double>(value.least) && kept <= static_cast<double>(value.most)))
        return std::string(value.key) + " = " + number_text(number) + (unit.empty() ? "" : " ") +
               std::string(unit) + ": it must be between " + written(value.unit, value.least) + " and " +
               written(value.unit, value.most);
    *out = static_cast<uint64_t>(std::llround(kept));
    return "";
}

std::string written(Unit unit, uint64_t value) {
    const UnitName* best = nullptr;
    for (const UnitName& one : kUnits) {
        if (one.unit != unit || std::string_view(one.name).ends_with("b/s")) continue;
        if (best == nullptr || static_cast<double>(value) >= one.factor) best = &one;
    }
    if (best == nullptr) return std::to_string(value);
    return number_text(static_cast<double>(value) / best->factor) + " " + best->name;
}

std::string set_value(Machine* machine, const std::string& assignment) {
    const size_t equals = assignment.find('=');
    const std::string key = assignment.substr(0, equals);
    const MachineValue* value = find_machine_value(key);
    if (value == nullptr) return "a machine has no \"" + key + "\"; machine files list what it has";
    if (value->is_of_dpu() && !machine->has_dpu())
        return key + ": " + machine->name + " has no DPU; its file would need a table [dpu]";
    if (equals == std::string::npos) return key + ": a value is missing, as in " + key + "=1";
    char* end = nullptr;
    const std::string text = assignment.substr(equals + 1);
    const double number = strtod(text.c_str(), &end);
    if (end == text.c_str()) return key + ": \"" + text + "\" is not a number";
    while (*end == ' ') ++end;
    uint64_t kept = 0;
    const std::string wrong = convert(*value, number, end, &kept);
    if (!wrong.empty()) return wrong;
    machine->*(value->at) = kept;
    machine->sources[key] = "given on the command line";
    return "";
}

}  // namespace longshore::timed
