// The machine that is measured, in the words of its kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longshore::device {

struct MachineFacts {
    std::string processor, kernel, architecture, date;
    std::vector<int> cpus;  // that this process may use
    uint32_t sockets = 1;
    uint64_t memory_free_bytes = 0;
};

MachineFacts look_at_machine();

// The calling thread runs there, and nowhere else.
void stay_on(int cpu);

}  // namespace longshore::device
