// How late somebody who sleeps on an idle core runs again once woken.
#pragma once

#include <vector>

namespace longshore::bench {

// us from the call that wakes a thread on core `other` to that thread's next instruction; the caller, on
// `core`, sleeps between. Empty where a thread may not be bound there. A hypervisor that runs an idle virtual
// core only milliseconds later makes that a part of every time in which somebody slept. Takes about 0.05 s
// where it does not.
std::vector<double> wake_up_latencies(int core, int other);

}  // namespace longshore::bench
