#include "mpi/requests/helper.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <mutex>

#include "mpi/shim.h"

namespace longshore::mpi {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr timespec kPause{0, 200'000};

enum HelperState : int { kAsleep, kHelping, kEnding };
std::atomic<int> state = kAsleep;
std::atomic_flag tried = ATOMIC_FLAG_INIT;
bool runs = false;
pthread_t helper;

void* help(void*) {
    for (;;) {
        state.wait(kAsleep);
        if (state.load() == kEnding) return nullptr;
        bool behind = false;
        {
            std::lock_guard<std::mutex> lock(shim().mutex);
            ls_advance(shim().context);
            behind = ls_waiting(shim().context) > 0;
            int helping = kHelping;
            if (!behind) state.compare_exchange_strong(helping, kAsleep);
        }
        if (behind) nanosleep(&kPause, nullptr);
    }
}

// The program's signals are not for this thread.
void start_helper() {
    if (!shim().guarded)
        shim().guarded = true;  // from here on the lock is one; where it was, others read this
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    runs = pthread_create(&helper, &attributes, help, nullptr) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (runs) pthread_setname_np(helper, "longshore");
}

}  // namespace

void help_if_behind() {
    {
        ContextLock lock;
        if (ls_waiting(shim().context) == 0) return;
    }
    if (!tried.test_and_set()) start_helper();
    state.store(kHelping);
    state.notify_one();
}

void stop_helper() {
    if (!runs) return;
    state.store(kEnding);
    state.notify_one();
    pthread_join(helper, nullptr);
    runs = false;
}

}  // namespace longshore::mpi
