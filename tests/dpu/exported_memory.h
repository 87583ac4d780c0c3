// What a test can say to the equipment of exported_memory.cc, and hear of it.
#pragma once

#include <cstdint>

namespace longshore::test {

// How many more may succeed in this process.
struct ExportedMemoryRules {
    uint32_t exports, imports;
};
extern ExportedMemoryRules exported_memory_rules;
extern uint64_t aliases_made, gets_to_aliases;

// Whether this process may open the files that others have mapped (root may).
bool can_map_files();

}  // namespace longshore::test
