#include "host/supervisor_parameters.h"

#include <stdio.h>

#include <algorithm>

#include "host/job_limits.h"

namespace longshore {
namespace {

constexpr uint64_t kStagingSlotsMin = 2, kStagingSlotsMax = 64;
constexpr uint64_t kStagingUnit = 4096;

// Several slots keep several chunks in flight; more of them than chunks fit would only be smaller.
void plan_staging(const ls_options& options, ServiceLimits* limits) {
    if (options.staging_bytes == 0) return;
    const uint64_t slots =
        std::clamp<uint64_t>(options.staging_bytes / options.chunk_bytes, kStagingSlotsMin, kStagingSlotsMax);
    const uint64_t bytes = options.staging_bytes / slots & ~(kStagingUnit - 1);
    limits->staging_slots = static_cast<uint32_t>(slots);
    limits->staging_slot_bytes =
        static_cast<uint32_t>(std::clamp<uint64_t>(bytes, kStagingUnit, uint64_t{1} << 31));
    limits->staging_only = stages_everything(options);
}

}  // namespace

bool stages_everything(const ls_options& options) {
    return options.staging_bytes != 0 &&
           (options.memory_mode == LS_MEMORY_STAGING ||
            (options.memory_mode == LS_MEMORY_AUTO && options.memory_inaccessible));
}

SupervisorParameters parameters_of(const ls_context& c) {
    SupervisorParameters out{};
    ServiceParameters& p = out.service;
    const JobSize job{c.node_count,
                      c.local_count,
                      c.size,
                      c.options.service_count,
                      c.options.chunk_bytes,
                      c.options.service_reads_max,
                      c.options.eager_bytes};
    p.node_limits = node_limits_for(job);
    p.service_limits = service_limits_for(job);
    plan_staging(c.options, &p.service_limits);
    p.node = static_cast<uint16_t>(c.node);
    p.node_count = static_cast<uint16_t>(c.node_count);
    p.rank_count = static_cast<uint16_t>(c.local_count);
    p.service_count = static_cast<uint16_t>(c.options.service_count);
    p.machine_ranks = c.machine_ranks;
    p.services_before = c.services_before;
    p.network = c.network;
    p.host_agents = c.options.host != nullptr;
    p.probe = c.probe;
    p.spin_us = c.options.service_spin_us;
    p.restarts_max = c.options.service_restarts_max;
    p.limit_s = c.options.limit_s;
    p.memory_inaccessible = c.options.memory_inaccessible != 0;
    p.trace = c.options.trace != 0;
    p.takes_tasks = c.options.tasks_between_nodes != 0 && c.options.host == nullptr && c.node_count > 1;
    p.network_settings.choice = static_cast<NetworkChoice>(c.options.network);
    p.network_settings.tls = c.options.network_tls != 0;
    p.network_settings.port_first = c.options.network_port_first;
    p.network_settings.port_last = c.options.network_port_last;
    snprintf(p.network_settings.interfaces, sizeof p.network_settings.interfaces, "%s",
             c.network_interfaces.c_str());
    snprintf(p.cores, sizeof p.cores, "%s", c.service_cores.c_str());
    out.agent_bytes = static_cast<uint32_t>(std::min(c.agent.size(), sizeof out.agent));
    std::copy_n(c.agent.begin(), out.agent_bytes, out.agent);
    return out;
}

}  // namespace longshore
