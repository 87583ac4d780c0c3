#include "fabric/shm/cpu_mask.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

namespace longshore {

bool CpuMask::get(pid_t pid) {
    memset(bits, 0, sizeof bits);
    return sched_getaffinity(pid, sizeof bits, reinterpret_cast<cpu_set_t*>(bits)) == 0;
}

void CpuMask::set() const {
    sched_setaffinity(0, sizeof bits, reinterpret_cast<const cpu_set_t*>(bits));
}

CpuMask CpuMask::allowed() {
    CpuMask mine, all, found;
    if (!mine.get(0)) return found;
    memset(all.bits, 0xff, sizeof all.bits);
    all.set();  // the kernel keeps what the cpuset allows
    found.get(0);
    mine.set();
    return found;
}

std::vector<int> parse_cpu_list(const char* text) {
    std::vector<int> cpus;
    for (const char* at = text; *at != 0;) {
        char* end = nullptr;
        long first = strtol(at, &end, 10), last = first;
        if (end == at) return {};
        if (*end == '-') last = strtol(at = end + 1, &end, 10);
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < CpuMask::kCpusMax; ++cpu)
            cpus.push_back(static_cast<int>(cpu));
        at = *end == ',' ? end + 1 : end;
        if (*end != 0 && *end != ',') return {};
    }
    return cpus;
}

}  // namespace longshore
