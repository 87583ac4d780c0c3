// What the product's own steps cost on this machine's cores, without moving a byte: a rank's post, and what a
// service process does for each message and each block that it reads.
#pragma once

#include "device/memory.h"

namespace longshore::device {

// "rank post", "rank look": the call that starts an alltoall, and a look whether it is complete. "service
// message", "service send": a frame of another service process taken in, one made. "service read", "service
// copy", "service finish": the next block of another node, or of a rank of this one, found, and the end of
// either taken in. "service look": in vain. All in ns, means of many.
void measure_service(const MachineFacts& machine, const Effort& effort, const Report& report,
                     const Tell& left_out);

}  // namespace longshore::device
