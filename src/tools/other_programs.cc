#include "tools/other_programs.h"

#include <string_view>

#include "tools/paths.h"

namespace longshore::tools {

const char* about(const char* name) {
    const std::string_view wanted = name;
    if (wanted == "bench") return "Measure latency and overlap of collectives on this machine";
    if (wanted == "dpu-bench") return "Measure how well workers take staged collectives off the hosts";
    if (wanted == "device") return "Measure what this machine, a DPU or a network can do";
    return "Time collectives on a machine that a file describes";
}

std::string other_program(const std::string& name) {
    return root_folder() + "/libexec/longshore/" + name;
}

}  // namespace longshore::tools
