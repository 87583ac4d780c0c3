// The process that stands in for a task process of another node: to the ranks and the supervisor here it is
// one (task_process.h), but it sends each task with the bytes of its buffers over there, in order, and writes
// back what comes (frames.h). While a task is computed there the next ones are on their way.
#pragma once

namespace longshore::tasks {

// Until the supervisor goes, or the stream to the other node ends. Returns the exit status.
int run_carrier();

}  // namespace longshore::tasks
