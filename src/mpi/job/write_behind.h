// Files that are written behind (docs/io.md): this rank's part of it, in a library of its own that is
// preloaded only where they are wanted, and that does nothing until it hears from here.
#pragma once

#include <string>

#include "statistics/summary.h"

namespace longshore::mpi {

// When the job is attached.
void begin_write_behind();
// One line, if files were to be written behind: they are not, for that reason.
void say_no_write_behind(const std::string& why);
// Waits until all that this rank has written is on its way to the disk.
void end_write_behind();
// When all ranks have ended theirs: of this node's first rank.
void report_write_behind();
// What there is to say of it, on this node.
statistics::WriteBehindCounts count_write_behind();
// Before MPI_Abort.
void drain_write_behind();

}  // namespace longshore::mpi
