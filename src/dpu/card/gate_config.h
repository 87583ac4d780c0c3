// What the standing service is told: lines "name = value" of a file, # begins a comment. Nothing is guessed:
// an unknown name, a name given twice or a bad value is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dpu/card/ip_address.h"
#include "dpu/card/job_users.h"
#include "dpu/session/session.h"

namespace longshore {

struct GateConfig {
    std::string address = "*";     // to listen at: a name or an address; *: all of this machine
    uint16_t port = kSessionPort;  // 0: any that is free, said in the log
    std::vector<IpNetwork> allow;  // from which ranks may come; empty: from this machine alone
    UserRange job_users;           // one of them for each job; none: one job at a time
    uint32_t jobs_max = 64;
    uint32_t jobs_per_address_max = 32;  // counted to the address of each job's first rank
    uint32_t ranks_max = 2048;
    uint32_t ranks_per_job_max = 1024;
    uint32_t ranks_per_address_max = 1024;
    // From which plug-ins of tasks are loaded: those of root, writable by nobody else. None: no tasks are
    // run.
    std::vector<std::string> task_folders;
    uint32_t task_processes_per_job_max = 256;
    uint32_t limit_s = 5;  // within which a connection must have said who it is

    bool operator==(const GateConfig&) const = default;
};

// Over what is in `config`. False, and why ("line 3: ..."): `config` is unchanged.
bool parse_gate_config(std::string_view text, GateConfig* config, std::string* error);
bool load_gate_config(const std::string& path, GateConfig* config, std::string* error);

// One value, as on a line of the file.
bool set_gate_value(std::string_view name, std::string_view value, GateConfig* config, std::string* error);

// Once all values are there. False, and what to do: it leaves open who may come.
bool is_complete(const GateConfig& config, std::string* error);

// As a file that says the same.
std::string show(const GateConfig& config);

}  // namespace longshore
