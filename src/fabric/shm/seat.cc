#include "fabric/shm/seat.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/shm/cpu_mask.h"
#include "fabric/shm/system.h"

namespace longshore {
namespace {

uint32_t topology_of(int cpu, const char* what) {
    char path[96], text[16] = {};
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
    if (!fd || read(fd.get(), text, sizeof text - 1) <= 0) return Seat::kAnywhere;
    char* end = nullptr;
    const long value = strtol(text, &end, 10);
    return end == text || value < 0 ? Seat::kAnywhere : static_cast<uint32_t>(value);
}

}  // namespace

Seat seat_of_cpu(int cpu) {
    return {topology_of(cpu, "physical_package_id"), topology_of(cpu, "core_id")};
}

Seat seat_of_process(pid_t pid) {
    CpuMask mask;
    if (!mask.get(pid) || mask.count() >= sysconf(_SC_NPROCESSORS_ONLN)) return {};
    Seat seat;
    bool first = true;
    for (int cpu = 0; cpu < CpuMask::kCpusMax; ++cpu) {
        if (!mask.has(cpu)) continue;
        const Seat one = seat_of_cpu(cpu);
        if (first) seat = one;
        first = false;
        if (one.package != seat.package) return {};
        if (one.core != seat.core) seat.core = Seat::kAnywhere;
    }
    return seat;
}

}  // namespace longshore
