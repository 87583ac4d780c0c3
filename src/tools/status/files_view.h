// What waits to be written of a node's ranks (docs/io.md), as the node's own memory says. It is not trusted.
#pragma once

#include <cstdint>
#include <vector>

namespace longshore::tools {

struct FilesView {
    uint32_t local = 0, pid = 0;
    uint64_t files = 0, bytes = 0;                // written behind so far
    uint64_t waiting_bytes = 0, bound_bytes = 0;  // of records: now, and at most
    uint64_t passed = 0;                          // files that the rank writes itself
    uint64_t since_ns = 0;                        // how long something has always waited; 0: nothing does
    double waited_s = 0;                          // of the rank, for the disk
    bool is_lost = false;                         // there is no writer any more
};

// Empty: the job has no files written behind.
std::vector<FilesView> find_files(int supervisor);

}  // namespace longshore::tools
