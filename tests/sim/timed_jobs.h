// Jobs of the timed simulator whose time can be written down, and what their expectations share.
#pragma once

#include "model/host_mpi.h"

namespace longshore::timed {

constexpr uint64_t kGiga = 1'000'000'000;

// One link's rate counts, all else is as quick as can be said, and programs take no time; some latency
// everywhere.
inline Machine ideal() {
    constexpr uint64_t kAtOnce = 1'000'000 * kGiga;
    Machine m;
    m.name = "ideal";
    m.cores = 64, m.dpu_cores = 16, m.switch_ports = 64;
    m.memory_rate = m.memory_core_rate = m.pcie_rate = m.dpu_memory_rate = kAtOnce;
    m.link_rate = 10 * kGiga;
    m.pcie_latency = 100 * kNanosecond;
    m.link_latency = 200 * kNanosecond;
    m.switch_latency = 100 * kNanosecond;
    m.service_spin = 1000 * kMicrosecond;
    return m;
}
constexpr Time kHostToDpu = 200 * kNanosecond;  // and back: two crossings of the host's bus
constexpr Time kWay = 700 * kNanosecond;        // from one memory to another over the switch
constexpr uint64_t kBlock = 64 * 1024;
constexpr Time kBlockTime = 6'553'600;  // on the link

inline Job job_on(const Machine& machine, uint32_t nodes, uint32_t ranks, uint32_t services,
                  Collective collective) {
    Job job;
    job.machine = machine;
    job.nodes = nodes, job.ranks_per_node = ranks, job.services = services;
    job.collective = collective;
    job.block_bytes = kBlock;
    return job;
}

inline Outcome host(const Job& job, const char* name) {
    return simulate_host(job, *find_host_algorithm(name));
}

inline double ns(Time time) {
    return static_cast<double>(time) / 1000;
}

}  // namespace longshore::timed
