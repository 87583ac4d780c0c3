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

std::vector<int> allowed_processors() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
    return cpus;
}

void stay_on_one_of(const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
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
    facts.cpus = allowed_processors();
    std::set<std::string> packages;
    for (const int cpu : facts.cpus) {
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
    stay_on_one_of({cpu});
}

OnOwnCore::OnOwnCore(Which which) : allowed_(allowed_processors()) {
    if (!allowed_.empty()) stay_on(which == Which::kFirst ? allowed_.front() : allowed_.back());
}

OnOwnCore::~OnOwnCore() {
    stay_on_one_of(allowed_);
}

}  // namespace longshore::device
