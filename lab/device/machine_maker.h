// A machine file for 'longshore simulate', made of what longshore-device has measured on a host, on its DPU,
// between the two and between two hosts. What was not measured is as in another machine's file.
#pragma once

#include <string>

#include "model/machine.h"

namespace longshore::tools {

struct MachineFiles {
    std::string host;      // results of the host
    std::string dpu;       // of its DPU; "base": all of it as in the base; empty, as host_dpu: it has none
    std::string host_dpu;  // of the network from the host to its DPU
    std::string network;   // of the network between two hosts; empty: what the host's results have of one
    std::string base;      // a machine's name or file
};

struct MadeMachine {
    timed::Machine machine;
    std::string text;  // of the file
    size_t measured = 0;
};

// "" or what is wrong with the files.
std::string make_machine(const MachineFiles& files, MadeMachine* made);

}  // namespace longshore::tools
