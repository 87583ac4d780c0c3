// What it costs to make memory known to a network card that reads it without its owner's help (RDMA), where
// the system has such a card and its library.
#pragma once

#include "device/memory.h"

namespace longshore::device {

// "register memory" and "deregister memory": us for a block of so many bytes that was touched before, by the
// first card there is.
void measure_registration(const Effort& effort, const Report& report, const Tell& left_out);

}  // namespace longshore::device
