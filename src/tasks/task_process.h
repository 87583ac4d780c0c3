// A task process: runs the tasks of the ranks that its supervisor tells it of, one at a time, in a plug-in.
// One thread of its own; the plug-in may have more.
#pragma once

namespace longshore::tasks {

// Runs on the control socket kServiceControlFd until the supervisor closes it. Returns the exit status.
int run_task_process();

}  // namespace longshore::tasks
