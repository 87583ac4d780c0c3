#include "mpi/requests/waiter.h"

#include <sched.h>

#include "fabric/shm/system.h"
#include "mpi/shim.h"

namespace longshore::mpi {
namespace {

constexpr uint64_t kSpinNs = 20'000;        // without anything moved, before the first sleep
constexpr uint64_t kDriveBusyNs = 100'000;  // while there is work, MPI waits at most this long
constexpr uint64_t kDriveSpinNs = 5'000;    // while spinning
constexpr uint64_t kYieldNs = 50'000;       // more ranks than cores: first only let others run
constexpr uint32_t kFirstLooks = 8;
constexpr uint32_t kSpinsPerClock = 8;  // a look takes some 100 ns
constexpr uint64_t kSleepNs =
    100'000;  // whatever can be moved or is complete ends it: only MPI waits for its end

}  // namespace

Waiter::Waiter(bool native) : native_(native) {}

Waiter::~Waiter() {
    if (begin_ns_ == 0) return;
    ContextLock lock;
    ls_end_wait(shim().context);
}

void Waiter::step(bool moved, Operation* operation) {
    // Short waits do not even look at the clock.
    if (!moved && (begin_ns_ == 0 ? ++spins_ < kFirstLooks : spinning_ && ++spins_ % kSpinsPerClock != 0))
        return;
    now_ns_ = awake_ns();
    if (begin_ns_ == 0) {
        begin_ns_ = moved_ns_ = driven_ns_ = now_ns_;
        ContextLock lock;
        ls_begin_wait(shim().context);
        ls_sleeper_begin(shim().context, &sleeper_);
    }
    spinning_ = false;
    if (moved) {
        moved_ns_ = now_ns_;
        if (now_ns_ - driven_ns_ < kDriveBusyNs) return;
        drive_native();
        driven_ns_ = now_ns_;
        return;
    }
    const bool spin = spinning_ = !shim().oversubscribed && now_ns_ - moved_ns_ < kSpinNs;
    if (spin && now_ns_ - driven_ns_ < kDriveSpinNs) return;
    drive_native();
    driven_ns_ = now_ns_;
    if (spin) return;
    if (native_ || now_ns_ - moved_ns_ < kYieldNs) {
        sched_yield();
        return;
    }
    ls_sleeper_sleep(&sleeper_, kSleepNs);
    if (operation) report(operation);
}

void Waiter::report(Operation* operation) {
    const uint64_t limit_ns = uint64_t{shim().settings.wait_report_s} * 1'000'000'000;
    if (limit_ns == 0 || operation->reported || now_ns_ - begin_ns_ < limit_ns) return;
    operation->reported = true;
    char line[256] = "";
    {
        ContextLock lock;
        if (!operation->host) return;  // another thread has just found it complete
        ls_operation_describe(operation->host, line, sizeof line);
    }
    say(LogLevel::kWarn, std::string(call_name(operation->call)) + " on rank " + std::to_string(shim().rank) +
                             " still waits: " + line);
}

}  // namespace longshore::mpi
