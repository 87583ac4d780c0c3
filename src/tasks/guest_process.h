// A task process whose ranks are on another node: what it runs comes from a carrier there (carrier.h),
// buffers and all, over one stream (frames.h).
#pragma once

namespace longshore::tasks {

// Until the stream ends. Returns the exit status.
int run_guest_process();

}  // namespace longshore::tasks
