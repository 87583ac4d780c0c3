/* Preloaded by a test: from still_clock_begin() to still_clock_end() the clock of a process goes on by what
 * it says that it computes, and by a little whenever its first thread looks, but not while that thread waits
 * for a core or for others. So how far two looks are apart says what lies between them, whatever the machine
 * does. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kStepNs = 500, kSecondNs = 1000000000 };
static atomic_llong still_ns; /* 0: the clock runs */

int clock_gettime(clockid_t clock, struct timespec* now) {
    long long ns = atomic_load(&still_ns);
    if (clock != CLOCK_MONOTONIC || ns == 0) return (int)syscall(SYS_clock_gettime, clock, now);
    if (syscall(SYS_gettid) == getpid()) ns = atomic_fetch_add(&still_ns, kStepNs);
    now->tv_sec = ns / kSecondNs;
    now->tv_nsec = ns % kSecondNs;
    return 0;
}

void still_clock_begin(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&still_ns, now.tv_sec * (long long)kSecondNs + now.tv_nsec);
}

void still_clock_compute(long long ns) {
    atomic_fetch_add(&still_ns, ns);
}

void still_clock_end(void) {
    atomic_store(&still_ns, 0);
}
