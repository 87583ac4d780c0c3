// A service process (SP): turns the fabric, feeds the engine, carries out its actions, sleeps when idle.
#pragma once

namespace longshore {

// Runs on the control socket kServiceControlFd until the supervisor closes it. Returns the exit status.
int run_service_process();

}  // namespace longshore
