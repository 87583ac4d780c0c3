/* Preloaded into longshore-device by a test: whoever looks at the clock finds that 5 ms have passed since the
 * last look. So each figure is told by what was moved between two looks, whatever the machine does. Nobody
 * polls: recv() waits, else it would be of chance how often the clock is looked at. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
    enum { kStepNs = 5000000, kSecondNs = 1000000000 };
    static atomic_llong looks;
    if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, now);
    const long long ns = kStepNs * atomic_fetch_add(&looks, 1);
    now->tv_sec = ns / kSecondNs;
    now->tv_nsec = ns % kSecondNs;
    return 0;
}

ssize_t recv(int socket, void* bytes, size_t count, int flags) {
    return recvfrom(socket, bytes, count, flags & ~MSG_DONTWAIT, NULL, NULL);
}
