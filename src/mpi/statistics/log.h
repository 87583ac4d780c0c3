// What --log says beside warnings (LONGSHORE_LOG). info: what was decided for the job and why, when it begins
// and when it ends, on rank 0. debug: each call of the families that may be carried, on each rank, as it is
// handed over or left to the MPI; and the communicators. trace: also when each is complete, and how long that
// took.
#pragma once

#include "mpi/shim.h"

namespace longshore::mpi {

inline bool logs(LogLevel level) {
    return shim().settings.log >= level;
}

struct Operation;
struct GroupRecord;

// The job has attached, or is left to the MPI.
void log_begin();
// Collective over shim().world. What was carried, and why the rest was not.
void log_end();

void log_group(const GroupRecord& record);
void log_posted(Operation* operation);
void log_complete(const Operation& operation);
void log_left(Call call, MPI_Comm comm, Reason reason);

}  // namespace longshore::mpi
