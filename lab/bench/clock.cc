#include "bench/clock.h"

#include <sys/prctl.h>
#include <time.h>

#include <chrono>
#include <cmath>

namespace longshore::bench {

double now_us() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(now).count();
}

void sleep_us(double us) {
    if (!(us > 0)) return;
    const int slack_ns = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1);
    timespec length{};
    length.tv_sec = time_t(us / 1e6);
    length.tv_nsec = long(std::fmod(us, 1e6) * 1e3);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) != 0) {
    }
    if (slack_ns > 0) prctl(PR_SET_TIMERSLACK, slack_ns);
}

double cpu_us() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) * 1e6 + double(time.tv_nsec) / 1e3;
}

}  // namespace longshore::bench
