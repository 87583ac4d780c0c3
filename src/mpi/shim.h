// The shim core's state in one process, and what its files share. Only code under mpi/ includes mpi.h.
// Threads: any, if the program asked for MPI_THREAD_MULTIPLE, and the helper (helper.h); then ContextLock
// guards the host context and the lists of operations. It is never held across a PMPI_ call that can call
// back into the shim.
#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "base/settings.h"
#include "host/host.h"
#include "mpi/core_api.h"
#include "statistics/call.h"

namespace longshore::mpi {

using namespace statistics;

struct Shim {
    bool started = false;         // MPI_Init went through us and MPI_Finalize has not
    bool agreed = false;          // every rank has the shim: it may communicate on its own
    bool on = false;              // offload agreed by all ranks; equal on all of them
    bool multiple = false;        // MPI_THREAD_MULTIPLE
    bool guarded = false;         // several threads may use the context: those, or the helper
    bool oversubscribed = false;  // more busy processes than cores: do not spin
    SelectionPoint place;         // what the table of rules asks of the job; equal on all ranks
    pid_t pid = 0;                // a forked child is not the rank
    int rank = 0, size = 0;
    unsigned launched =
        0;  // processes that the launcher has started, where they are jobs of one rank each; else 0
    Settings settings;        // rank 0's
    Selection selection;      // likewise
    ForcedAlgorithms forced;  // as the settings say, until the program says otherwise
    std::string directory;    // of this library
    std::string stats_path, trace_path;
    uint64_t started_ns = 0;  // when MPI_Init had been through
    const longshore_stub_api* stub = nullptr;
    ls_context* context = nullptr;
    MPI_Comm world = MPI_COMM_NULL;   // a duplicate of our own, errors return
    MPI_Comm self = MPI_COMM_NULL;    // likewise
    int keyval = MPI_KEYVAL_INVALID;  // a communicator's GroupRecord
    std::mutex mutex;
};

// Never destroyed: MPI calls may come from atexit handlers. There from the start, and found without a call:
// the calls that the MPI serves look here a dozen times.
union ForeverShim {
    Shim shim;
    ForeverShim() : shim() {}
    ~ForeverShim() {}
};
extern ForeverShim the_shim;
inline Shim& shim() {
    return the_shim.shim;
}

// Guards the context when several threads may call MPI; always tells register_progress()'s poll that this
// thread is inside the shim already.
class ContextLock {
  public:
    ContextLock() : held_(shim().guarded), depth_(depth()) {
        ++depth_;
        if (held_) shim().mutex.lock();
    }
    struct TryOnly {};
    explicit ContextLock(TryOnly) : held_(false), depth_(depth()) {
        if (depth_++ > 0) return;
        got_ = !shim().guarded || shim().mutex.try_lock();
        held_ = got_ && shim().guarded;
    }
    ~ContextLock() {
        if (held_) shim().mutex.unlock();
        --depth_;
    }
    ContextLock(const ContextLock&) = delete;
    ContextLock& operator=(const ContextLock&) = delete;

    bool got() const { return got_; }  // of TryOnly

  private:
    // A thread's own only where there can be several: finding it costs a call.
    static int& depth() { return shim().multiple ? depth_of_thread : depth_of_process; }
    static inline constinit thread_local int depth_of_thread = 0;
    static inline constinit int depth_of_process = 0;
    bool held_, got_ = false;
    int& depth_;
};

uint64_t now_ns();
// Lets MPI make progress: a peer in a rendezvous send arrives. On both MPIs PMPI_Iprobe does, but only if it
// finds nothing: so it is asked for our own messages, of which there are none.
void drive_native();
// The tag of a message that this rank sends to itself on shim().self: no other that is under way has it.
int take_own_tag();
void give_own_tag(int tag);
// One line on stderr, if the user's log level shows it.
void say(LogLevel level, const std::string& line);
// Before the job ends at once: until launchers have read what was said.
void wait_until_heard();
// For a rank that cannot go the way that the others have gone, and cannot tell them: they would wait for it
// for ever.
[[noreturn]] void end_job(const char* why);
// For tests: the number that this variable has, else `otherwise`.
uint64_t for_tests(const char* variable, uint64_t otherwise);
// For tests: whether this rank is to meet that failure (LONGSHORE_INTERNAL_FAIL=WHAT:RANK).
bool fails_for_tests(const char* what);

// Being polled by the MPI itself, for waits in code that we do not see (operation.cc).
void register_progress();
void unregister_progress();

}  // namespace longshore::mpi
