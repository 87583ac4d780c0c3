// A node's supervisor: owns the node's memory, lets ranks attach, makes groups, keeps the service processes
// running, and ends with all of them when the last rank has gone. Moves no data. One thread.
#pragma once

namespace longshore {

// Reads its parameters from kParameterFd and tells kReadyFd where it listens. Returns the exit status.
int run_supervisor();

}  // namespace longshore
