// What happened, counted per rank and added up over the job at MPI_Finalize (LONGSHORE_STATS).
#pragma once

#include <cstdint>

#include "longshore.h"
#include "mpi/shim.h"
#include "statistics/figures.h"

namespace longshore::mpi {

// What this rank has counted so far. In memory of its own, or on the board of its machine (keeping.h).
inline Figures own_figures;
inline Figures* the_figures = &own_figures;
inline Figures& figures() {
    return *the_figures;
}

void count_offloaded(Call call, CommIndex comm, uint64_t bytes, ls_algorithm algorithm);
void count_host(Call call, CommIndex comm, Reason reason, uint64_t bytes);
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

void count_time(Call call, CommIndex comm, CallTime kind, uint64_t ns);
// A test of requests of the MPI's own.
void count_mpi_test(uint64_t ns);
// 0 without statistics: the clock is not read then.
uint64_t stats_now_ns();

// The call that the rank is in, where times are wanted: if it never comes back, the keeper says so. When a
// call that is made within another is over, it is the other's again.
inline void enter(Function function, uint64_t begin_ns) {
    figures().inside_since_ns.store(begin_ns, std::memory_order_relaxed);
    figures().inside.store(1u + function, std::memory_order_relaxed);
}
inline void leave() {
    figures().inside.store(0, std::memory_order_relaxed);
}
class Inside {
  public:
    // `begin_ns`: now, or 0 where no times are wanted.
    Inside(Function function, uint64_t begin_ns) : on_(begin_ns != 0) {
        if (!on_) return;
        outer_ = figures().inside.load(std::memory_order_relaxed);
        outer_since_ns_ = figures().inside_since_ns.load(std::memory_order_relaxed);
        enter(function, begin_ns);
    }
    ~Inside() {
        if (!on_) return;
        figures().inside_since_ns.store(outer_since_ns_, std::memory_order_relaxed);
        figures().inside.store(outer_, std::memory_order_relaxed);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    bool on_;
    uint64_t outer_ = 0, outer_since_ns_ = 0;
};

// Around a wait in which Longshore has no operation open: all of it is the MPI's.
class MpiWaitNote {
  public:
    explicit MpiWaitNote(Function function)
        : function_(function), begin_ns_(begin_of_call_ns()), inside_(function, begin_ns_) {}
    ~MpiWaitNote() {
        if (begin_ns_ != 0) count();
    }
    MpiWaitNote(const MpiWaitNote&) = delete;
    MpiWaitNote& operator=(const MpiWaitNote&) = delete;

  private:
    void count() const;

    Function function_;
    uint64_t begin_ns_;
    Inside inside_;
};

// Around a call that Longshore does not carry. Of several such calls in each other the outermost counts,
// without the time of calls in it that are counted by themselves: MPI-IO makes collectives and waits of its
// own.
class OtherNote {
  public:
    explicit OtherNote(Other other);
    ~OtherNote();
    OtherNote(const OtherNote&) = delete;
    OtherNote& operator=(const OtherNote&) = delete;

  private:
    Other other_;
    uint64_t begin_ns_ = 0;  // 0: not counted
};

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
