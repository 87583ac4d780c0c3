// With statistics only: which nonblocking and persistent operations were waited for at once, so that nothing
// could overlap with them (docs/selection.md has the definition). Of any thread.
#pragma once

#include <vector>

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// The operation has been handed over, and is not on the list of open ones yet.
void note_started(Operation* operation);
// The program waits for, or tests, these requests. Before anything is done for them.
void note_waits(int count, const MPI_Request requests[]);
void note_tests(int count, const MPI_Request requests[]);

// Around a test: where times are wanted, notes the requests, and counts its time to the call of the first of
// them that Longshore carries and that is open; if there is none, to the tests of the MPI's own requests.
class TestNote {
  public:
    TestNote(Function function, int count, const MPI_Request requests[]);
    ~TestNote();
    TestNote(const TestNote&) = delete;
    TestNote& operator=(const TestNote&) = delete;

  private:
    Function function_;
    Call call_{};
    CommIndex comm_ = CommIndex::kNone;
    bool is_ours_ = false;
    uint64_t begin_ns_ = 0;  // 0: not counted
};
// The operation is complete.
void note_complete(const Operation& operation);

// Collective over the job: the sums over all ranks, in order, on rank 0.
std::vector<AtOnceCell> gather_at_once();

}  // namespace longshore::mpi
