// What the command line of bigsort says.
#pragma once

#include <cstdint>
#include <string>

#include "messages.h"
#include "values.h"

namespace bigsort {

struct Options {
    std::uint64_t total_bytes = 0;  // 0: as long as the input
    std::uint64_t page_bytes = 8192;
    std::uint64_t dram_bytes = 1 << 20;
    int threads = 1;
    std::uint64_t files_max = 64;
    Offload offload = Offload::kNone;
    Placement placement = Placement::kSameHost;
    std::string input, output, json;
    std::string temporary = ".";
    std::string peer_temporary;  // empty: the same path
    std::uint64_t seed = 1;
    Distribution distribution = Distribution::kUniform;
    double peer_limit_s = 60;
};

// Returns -1 to go on, else the exit status. Says what is wrong if `speak`.
int parse(int argc, char** argv, bool speak, Options& options);

const char* name_of(Offload offload);
const char* name_of(Placement placement);

}  // namespace bigsort
