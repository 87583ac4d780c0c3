// What a machine takes for everything that decides the time of a collective: rates, latencies, and what a
// processor needs for each step of a program. Read from a machine file (machine_file.h), where each value has
// a source.
#pragma once

#include <map>
#include <span>
#include <string>

#include "model/event_queue.h"

namespace longshore::timed {

// Times in picoseconds, rates in bytes a second. What each value means stands in machine.cc, once, for the
// parser, its messages and the documentation.
struct Machine {
    std::string name, title;

    uint64_t cores = 0;
    uint64_t memory_rate = 0, memory_core_rate = 0;
    uint64_t pcie_rate = 0;
    Time pcie_latency = 0;
    uint64_t link_rate = 0;
    Time link_latency = 0, link_gap = 0;
    uint64_t switch_ports = 0;
    Time switch_latency = 0;

    Time rank_post = 0, rank_post_each = 0, rank_test = 0, rank_wake_up = 0;
    Time service_turn = 0, service_message = 0, service_send = 0, service_read = 0, service_copy = 0,
         service_finish = 0, service_wake = 0, service_wake_up = 0, service_spin = 0;

    uint64_t dpu_cores = 0, dpu_memory_rate = 0;  // 0: it has none
    bool has_dpu() const { return dpu_cores != 0; }
    Time dpu_message = 0, dpu_session = 0, dpu_stand_in_post = 0, dpu_stand_in_post_each = 0,
         dpu_stand_in_test = 0, dpu_stand_in_wake_up = 0;

    Time mpi_send = 0, mpi_receive = 0, mpi_take = 0, mpi_read = 0, mpi_shared = 0, mpi_thread_wake_up = 0;
    uint64_t mpi_eager = 0;

    Time jitter_entry = 0;
    uint64_t jitter_late = 0;  // per million
    Time jitter_late_by = 0;
    uint64_t jitter_cost = 0;  // per million

    // By key: where a value comes from. "fitted to row N" where it was chosen to meet that row.
    std::map<std::string, std::string> sources;
};

enum class Unit : uint8_t { kCount, kTime, kRate, kBytes, kShare };

struct MachineValue {
    const char* key;  // "table.name"
    Unit unit;
    uint64_t Machine::*at;
    uint64_t least, most;
    const char* meaning;
    bool is_of_dpu() const { return std::string_view(key).starts_with("dpu."); }
};

// In the order of a machine file.
std::span<const MachineValue> machine_values();
const MachineValue* find_machine_value(std::string_view key);

// Units as they are written in files and options, with how much of what is kept each of them is.
struct UnitName {
    Unit unit;
    const char* name;
    double factor;
};
std::span<const UnitName> unit_names();
// "ps, ns, us, ms or s", for messages; empty: it has none.
std::string names_of(Unit unit);
// What a value says in its unit, as it is kept. Returns what is wrong with it, or "".
std::string convert(const MachineValue& value, double number, std::string_view unit, uint64_t* out);
// As one would write it in a machine file.
std::string written(Unit unit, uint64_t value);

// Sets "table.name=64 GB/s" and notes where it came from. Returns what is wrong, or "".
std::string set_value(Machine* machine, const std::string& assignment);

}  // namespace longshore::timed
