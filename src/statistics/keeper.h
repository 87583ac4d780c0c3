// The keeper: a process of longshored on each machine of a job that wants statistics or a trace. It sleeps
// until the ranks are gone, and if they ended without MPI_Finalize (a signal, a crash, MPI_Abort) it writes
// the files of what they had noted on the board by then. Ranks need no handlers of signals for that.
#pragma once

#include "statistics/board.h"

namespace longshore::statistics {

// Descriptors that it is started with.
constexpr int kKeeperBoardFd = 3, kKeeperErrorFd = 4;

// The program longshored in the role "keeper": returns its exit status.
int run_keeper();

// Parts of it, for tests. `gone_ns`, by slot: when the rank was gone.
// Whether rank 0 has not written the files, or, where it is on another machine, may not have.
bool is_interrupted(const Board& board);
void write_what_is_known(const Board& board, const uint64_t* gone_ns);

}  // namespace longshore::statistics
