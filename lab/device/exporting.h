// What it costs to export memory to a DPU, so that its service processes have an alias of it and move bytes
// to and from it without its owner, where the network card and UCX can.
#pragma once

#include "device/memory.h"

namespace longshore::device {

// "export memory": us for a block of so many bytes that UCX knows and that was touched before.
void measure_exporting(const Effort& effort, const Report& report, const Tell& left_out);

}  // namespace longshore::device
