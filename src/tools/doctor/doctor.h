// The checks of longshore doctor. Each really tries what it tells about.
#pragma once

#include <string>
#include <vector>

namespace longshore::tools {

enum class Verdict { kGood, kWarn, kFail };

struct Check {
    std::string name;
    Verdict verdict = Verdict::kGood;
    std::string found;
    std::string advice;  // what to do; empty when all is well
};

using Checks = std::vector<Check>;

// mpi.cc
void check_mpis(Checks* checks);
void check_parts(Checks* checks);
void check_network(Checks* checks);
void check_settings(Checks* checks);

// dpu/rank/doctor.cc, or no_dpu.cc: nothing without LONGSHORE_DPU
void check_dpu(Checks* checks);

// system.cc
void check_machine(Checks* checks);
void check_cores(Checks* checks);
void check_memory(Checks* checks);
void check_limits(Checks* checks);

// peer_memory.cc
void check_peer_copy(Checks* checks);
void check_shared_blocks(Checks* checks);

// kernel_services.cc
void check_kernel_services(Checks* checks);

}  // namespace longshore::tools
