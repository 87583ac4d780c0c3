// What it costs to tell another core something: a word that it looks at, and a process that sleeps.
#pragma once

#include "device/memory.h"

namespace longshore::device {

// "word between cores": half of a word's way to another core and back, where both look all the time, ns.
// "wake-up": from the call that wakes to the process that slept running, us; "wake-up call": what the call
// takes, us.
void measure_signals(const MachineFacts& machine, const Effort& effort, const Report& report,
                     const Tell& left_out);

}  // namespace longshore::device
