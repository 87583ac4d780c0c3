// With statistics only: which nonblocking and persistent operations were waited for at once, so that nothing
// could overlap with them (docs/selection.md has the definition). Of any thread.
#pragma once

#include <string>
#include <vector>

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// The operation has been handed over, and is not on the list of open ones yet.
void note_started(Operation* operation);
// The program waits for, or tests, these requests. Before anything is done for them.
void note_waits(int count, const MPI_Request requests[]);
void note_tests(int count, const MPI_Request requests[]);
// The operation is complete.
void note_complete(const Operation& operation);

// What was noted of one call on groups of one shape, with table bytes from 2^size_class on to below the
// double (0: and none).
struct AtOnceCell {
    uint32_t call = 0, size_class = 0;  // Call::index()
    uint32_t nodes = 0, ranks_per_node = 0;
    uint64_t calls = 0, at_once = 0;
};
// Collective over the job: the sums over all ranks, in order, on rank 0.
std::vector<AtOnceCell> gather_at_once();

// The entry "waited_at_once" of the statistics.
void append_at_once(std::string* out, const std::vector<AtOnceCell>& cells);
// Lines for stderr, of calls most of which were waited for at once.
void print_at_once(const std::vector<AtOnceCell>& cells);

}  // namespace longshore::mpi
