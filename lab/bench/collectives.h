// The collectives that are measured, and the two ways of calling them.
#pragma once

#include <mpi.h>

#include <span>
#include <string_view>

namespace longshore::bench {

// The calls of one contender: PMPI_ goes to the MPI (mpi/native/native.h), MPI_ to the preloaded library if
// there is one.
struct Calls {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) \
    decltype(&PMPI_I##name) i##name;                                              \
    decltype(&PMPI_##Name) name;
#include "base/collectives.inc"
    decltype(&PMPI_Wait) wait;
    decltype(&PMPI_Test) test;
};
extern const Calls kHostCalls;
extern const Calls kInterposedCalls;

// Arguments of one call; counts and displacements in bytes, one per rank.
struct Arguments {
    const void* send = nullptr;
    void* receive = nullptr;  // bcast: the one buffer
    int count = 0;
    const int* counts = nullptr;
    const int* displacements = nullptr;
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
};

enum class Pattern {
    kEachToEach,  // a block of its own for every pair
    kEachToAll,   // every rank's block to all
    kOneToAll,    // rank 0's block to all
    kEachToOne,   // every rank's block to rank 0
    kOneToEach,   // a block of rank 0 for every rank
};

// Rank 0 is the only one that gives, or the only one that gets.
constexpr bool has_root(Pattern pattern) {
    return pattern >= Pattern::kOneToAll;
}

struct Collective {
    const char* name;
    Pattern pattern;
    bool nonblocking;
    int (*call)(const Calls&, const Arguments&, MPI_Request*);  // the request is null for a blocking one
};

std::span<const Collective> collectives();
const Collective* find_collective(std::string_view name);  // null if there is none

}  // namespace longshore::bench
