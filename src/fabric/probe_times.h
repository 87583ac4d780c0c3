// When a service process asks a peer of which it has heard nothing whether it is there, and when it takes a
// silent one for lost. What is asked in a second is bounded, however many peers there are.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longshore {

constexpr uint64_t kProbesPerSecond = 100;  // of one service process, all its peers together

struct ProbeTimes {
    uint64_t idle_ns = 0;     // of silence before the first probe
    uint64_t step_ns = 0;     // between the probes of a peer that does not answer
    uint64_t silence_ns = 0;  // after which it is lost
};

namespace probe_times {
constexpr uint64_t round_of_all(uint64_t peers) {
    return peers * 1'000'000'000 / kProbesPerSecond;
}
}  // namespace probe_times

// The kernel asks, and answers for a process that waits for its core: late, and lost after five times
// `limit_ns`. Silent peers are no more than one in a while, so that only the first probes count.
constexpr ProbeTimes probe_times_of_kernel(uint64_t limit_ns, uint64_t peers) {
    ProbeTimes times;
    times.idle_ns = std::max(4 * limit_ns, probe_times::round_of_all(peers));
    times.step_ns = limit_ns / 4;
    times.silence_ns = std::max(5 * limit_ns, times.idle_ns + limit_ns);
    return times;
}

// The service process asks, and a peer answers when it has a core: early, and lost after six times
// `limit_ns`, but not before it has been asked twice.
constexpr ProbeTimes probe_times_of_process(uint64_t limit_ns, uint64_t peers) {
    ProbeTimes times;
    times.idle_ns = times.step_ns = std::max(limit_ns / 4, probe_times::round_of_all(peers));
    times.silence_ns = std::max(6 * limit_ns, 3 * times.step_ns);
    return times;
}

}  // namespace longshore
