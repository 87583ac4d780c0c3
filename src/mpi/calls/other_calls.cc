#include "mpi/calls/other_calls.h"

#include <cstdlib>

#include "mpi/entry.h"
#include "mpi/native/callers.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"

namespace longshore::mpi {
namespace {

// `function` with its time noted: the MPI's own, or one of the shim.
template <Other other, auto function>
struct Timed;

template <Other other, class... Arguments, int (*function)(Arguments...)>
struct Timed<other, function> {
    static int call(Arguments... arguments) {
        const OtherNote note(other);
        return function(arguments...);
    }
};

bool is_given(const char* variable) {
    const char* const value = getenv(variable);
    return value && *value;
}

}  // namespace

void fill_other_calls(const void* entries[LONGSHORE_ENTRY_COUNT]) {
    if (!is_given("LONGSHORE_STATS") && !is_given("LONGSHORE_TRACE")) return;
#define LONGSHORE_OTHER_CALL(Name, is_collective)                        \
    entries[LONGSHORE_INDEX_MPI_##Name] = reinterpret_cast<const void*>( \
        &ForProgram<PMPI_##Name, Timed<Other::k##Name, PMPI_##Name>::call, is_mpi_code>::call);
#define LONGSHORE_OTHER_ENTRY(Name, function)                                                                \
    entries[LONGSHORE_INDEX_MPI_##Name] =                                                                    \
        reinterpret_cast<const void*>(&ForProgram<PMPI_##Name, Timed<Other::k##Name, entry::function>::call, \
                                                  makes_communicator_for_mpi>::call);
#include "statistics/other_calls.inc"
}

}  // namespace longshore::mpi
