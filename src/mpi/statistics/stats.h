// What happened, counted per rank and added up over the job at MPI_Finalize (LONGSHORE_STATS).
#pragma once

#include <cstdint>

#include "longshore.h"
#include "mpi/shim.h"

namespace longshore::mpi {

// Why MPI served a call. Equal on all ranks of the call, but for kArguments.
enum class Reason : uint8_t {
    kNone,
    kOff,        // offload is off for this job
    kOneRank,    // nothing to move
    kIntercomm,  // plain MPI serves these
    kUnseen,     // a communicator made in a way that the shim does not see
    kNoGroup,    // Longshore could not make a group for the communicator
    kArguments,  // MPI is to report what is wrong
    kSmall,      // the table of rules says: fewer bytes than worth handing over
    kSnapshot,   // in place, and more bytes than may be copied first
    kSelected,   // the table of rules, or a forced algorithm, gives it to MPI
    kOptedOut,   // an info key of the communicator asks for MPI
};
inline constexpr int kReasonCount = 11;

void count_offloaded(Call call, uint64_t bytes, ls_algorithm algorithm);
void count_host(Call call, Reason reason, uint64_t bytes);
// Whether a call left to MPI for this reason moves bytes that Longshore might have moved.
inline bool moves_bytes(Reason reason) {
    return reason != Reason::kOneRank && reason != Reason::kIntercomm && reason != Reason::kArguments;
}
bool stats_wanted();
// Whether anybody asks for times of calls, for statistics or a trace. From MPI_Init on; a call that MPI
// serves looks at it and at nothing else.
inline bool times_are_wanted = false;
// 0: no times are wanted.
inline uint64_t begin_of_call_ns() {
    return times_are_wanted ? now_ns() : 0;
}

// With statistics: elements that this rank has packed or unpacked itself. `device_bytes`: so many of the
// bytes lie in device memory.
void count_packed(uint64_t bytes, uint64_t device_bytes, uint64_t ns);
void count_unpacked(uint64_t bytes, uint64_t device_bytes, uint64_t ns);
// Memory for packed elements was taken, or given back.
void count_staging(int64_t bytes);

// Where the time of a call goes, on the rank that makes it.
enum class CallTime : uint8_t {
    kPosting,  // of offloaded calls: until the posting call has returned, or a blocking one has handed over
    kBetween,  // from then until the first wait, or until a test finds it complete: the program computes
    kWaiting,  // in waits for it
    kMpi,      // in calls left to the MPI
};
inline constexpr int kCallTimeCount = 4;
void count_time(Call call, CallTime kind, uint64_t ns);
// 0 without statistics: the clock is not read then.
uint64_t stats_now_ns();

// Around a wait in which Longshore has no operation open: all of it is the MPI's. `name` is a literal.
class MpiWaitNote {
  public:
    explicit MpiWaitNote(const char* name);
    ~MpiWaitNote();
    MpiWaitNote(const MpiWaitNote&) = delete;
    MpiWaitNote& operator=(const MpiWaitNote&) = delete;

  private:
    const char* name_;
    uint64_t begin_ns_;
};
uint64_t mpi_waits_ns();  // of this rank, all together

// Around a wait in MPI for operations of Longshore, with statistics: what service processes move meanwhile is
// not hidden from the program.
class WaitNote {
  public:
    WaitNote();
    ~WaitNote();
    WaitNote(const WaitNote&) = delete;
    WaitNote& operator=(const WaitNote&) = delete;

  private:
    bool counts_;
    uint64_t before_[kCollectiveCount];
};

// Around a blocking offloaded call: what lands meanwhile is taken as its own.
void note_blocking_begin(Call call);
void note_blocking_end(Call call);

longshore_counters counters();

// Collective over the job (shim().world); the context is still there. Writes the summary on rank 0.
void write_stats();

}  // namespace longshore::mpi
