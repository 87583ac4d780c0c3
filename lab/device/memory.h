// How quickly cores move bytes: copies of one core, from its own memory and from another process's, and
// STREAM by threads.
#pragma once

#include <functional>
#include <string>

#include "device/machine.h"
#include "device/row.h"

namespace longshore::device {

using Report = std::function<void(Row)>;
using Tell = std::function<void(const std::string&)>;  // of what was left out, and why

// "memcpy": GB/s of one core by block, 64 B to 1 GB, in the caches where it fits.
void measure_memcpy(const MachineFacts& machine, const Effort& effort, const Report& report,
                    const Tell& left_out);
// "process copy": the same by process_vm_readv out of another process, as service processes read.
void measure_process_copy(const MachineFacts& machine, const Effort& effort, const Report& report,
                          const Tell& left_out);
// "stream copy", "... scale", "... add", "... triad": GB/s, counted as McCalpin's STREAM does, of 10 and 100
// million doubles by 1, 2, 4 ... threads; `bytes` are those of one array. False: a result was wrong.
bool measure_stream(const MachineFacts& machine, const Effort& effort, const Report& report,
                    const Tell& left_out);

}  // namespace longshore::device
