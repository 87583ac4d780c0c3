// Starting longshored as a process of its own from inside an MPI program: not a child of this process, with
// nothing of its descriptors, signals or terminal.
#pragma once

#include <span>

namespace longshore {

constexpr int kFirstDetachedFd = 3;
constexpr size_t kDetachedFdsMax = 4;

// Runs `path` in the given role. It gets `descriptors` as 3, 4 and so on, and /dev/null as 0 to 2. Returns 0,
// or the errno of what failed. Does not block but for the exec itself.
int start_detached(const char* path, const char* role, char* const environment[],
                   std::span<const int> descriptors);

}  // namespace longshore
