// Who calls: the program, or code of the MPI itself. MPI-IO of MPICH and ROMIO call PMPI_ functions, which
// the preloaded library shows to everybody. Such calls are the MPI's own business: their order is decided by
// its progress, so they are neither offloaded nor finished by waits of ours. Any thread.
#pragma once

namespace longshore::mpi {

// Before the first call: `function` is one of the MPI library's.
void set_mpi_code(const void* function);

// Whether the return address of a call lies in the MPI's library, or in a part of it that has made a
// communicator. Fortran's and C++'s layers are libraries of their own, and their calls the program's.
bool is_mpi_code(const void* return_address);

// Likewise, of a call that makes a communicator: parts that the MPI has loaded since are recognised by name.
bool makes_communicator_for_mpi(const void* return_address);

// Whether the MPI has made a communicator for itself in this process: it may have requests that only its own
// waits finish in the right order.
bool mpi_has_communicators();

// An entry: `function` for calls of the program, `native` for those of the MPI itself. The preloaded library
// jumps to it, so its return address is the caller's.
template <auto native, auto function, bool (*is_mpis)(const void*)>
struct ForProgram;

template <class... Arguments, int (*native)(Arguments...), int (*function)(Arguments...),
          bool (*is_mpis)(const void*)>
struct ForProgram<native, function, is_mpis> {
    static int call(Arguments... arguments) {
        if (is_mpis(__builtin_return_address(0))) return native(arguments...);
        return function(arguments...);
    }
};

}  // namespace longshore::mpi
