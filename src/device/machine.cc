#include "device/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <time.h>

#include <cstdlib>
#include <set>

#include "base/file.h"

namespace longshore::device {
namespace {

// What stands behind the first "NAME ...:" of a file under /proc. Empty: there is none.
std::string field_of(const std::string& text, const std::string& name) {
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const size_t colon = line.find(':');
        if (!line.starts_with(name) || colon == line.npos) continue;
        const size_t first = line.find_first_not_of(" \t", colon + 1);
        return first == line.npos ? "" : line.substr(first);
    }
    return "";
}

std::string processor_name() {
    const std::string text = read_proc("/proc/cpuinfo");
    for (const char* name : {"model name", "Model", "CPU part"}) {
        if (const std::string found = field_of(text, name); !found.empty())
            return std::string(name) == "CPU part" ? "Arm core, part " + found : found;
    }
    return "unknown";
}

std::string utc_date() {
    char text[32] = "";
    const time_t now = time(nullptr);
    tm parts{};
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%MZ", &parts);
    return text;
}

}  // namespace

MachineFacts look_at_machine() {
    MachineFacts facts;
    facts.processor = processor_name();
    facts.date = utc_date();
    utsname name{};
    uname(&name);
    facts.kernel = std::string(name.sysname) + " " + name.release;
    facts.architecture = name.machine;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    std::set<std::string> packages;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        facts.cpus.push_back(cpu);
        std::string package, error;
        if (read_file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id",
                      64, &package, &error))
            packages.insert(package);
    }
    if (!packages.empty()) facts.sockets = static_cast<uint32_t>(packages.size());
    facts.memory_free_bytes =
        strtoull(field_of(read_proc("/proc/meminfo"), "MemAvailable").c_str(), nullptr, 10) * 1024;
    return facts;
}

void stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

}  // namespace longshore::device
