// What a simulation will take of this machine, and whether it has that.
#pragma once

#include <cstdint>

namespace longshore::tools {

struct Need {
    double seconds = 0;  // of a core
    uint64_t memory_bytes = 0;
};

// Says what is needed, where one may not want to wait for it. Refuses, with the reason, where memory is not
// there: false. `command`: as users type it.
bool check_need(const char* command, const Need& need);

}  // namespace longshore::tools
