// What a test can say to the equipment of exported_memory.cc, and hear of it.
#pragma once

#include <cstdint>

namespace longshore::test {

// Of how many bytes a piece may be to succeed in this process.
constexpr uint64_t kAll = UINT64_MAX, kNone = 0;
constexpr uint64_t kAborts = 1;  // the process ends, as it does with some cards
struct ExportedMemoryRules {
    uint64_t exports, imports;
};
extern ExportedMemoryRules exported_memory_rules;
extern uint64_t aliases_made, gets_to_aliases;

// Whether this process may open the files that others have mapped (root may).
bool can_map_files();

}  // namespace longshore::test
