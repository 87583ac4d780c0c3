// The writer of a node: carries out what the ranks' queues say, each queue by a thread of its own, in order.
#pragma once

namespace longshore::io {

// Runs on the control socket kServiceControlFd until the supervisor closes it. Returns the exit status.
int run_writer();

}  // namespace longshore::io
