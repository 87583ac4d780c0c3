// A rank that is further ahead on a communicator than its ring has places for (docs/protocol.md) keeps the
// rest of its calls to itself until older ones are over, and peers wait for those. While it is in the MPI's
// own calls, Open MPI polls us; MPICH does not. There a thread takes note of what is over and posts what
// waited; it moves no data and calls no MPI, and exists only from the first time that a rank is so far ahead.
#pragma once

namespace longshore::mpi {

// After a nonblocking call was started, without the lock.
void help_if_behind();
// Before the context goes.
void stop_helper();

}  // namespace longshore::mpi
