// Time, in microseconds.
#pragma once

namespace longshore::bench {

double now_us();  // CLOCK_MONOTONIC

// Sleeps to a few microseconds: the kernel's timer slack (50 us by default) is taken away for the time of the
// sleep only, because whatever else sleeps in this thread should sleep as it does in any program.
void sleep_us(double us);

// CPU time of this process, user and system, all threads; what getrusage tells, in finer steps.
double cpu_us();

}  // namespace longshore::bench
