// Checks of the machine: its cores, memory and limits.
#include <fcntl.h>
#include <fmt/core.h>
#include <hwloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>

#include "tools/doctor/doctor.h"
#include "tools/doctor/trial.h"
#include "tools/terminal.h"

namespace longshore::tools {
namespace {

constexpr uint64_t kTrialBytes = 1 << 20;
constexpr uint64_t kMemoryWantedBytes = 256'000'000;
constexpr rlim_t kFilesWanted = 1024;

// The value after "NAME:" or "NAME :" in files such as /proc/cpuinfo, or "".
std::string field(const std::string& path, const std::string& name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(name)) continue;
        const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
        return start == line.npos ? "" : line.substr(start);
    }
    return "";
}

// The tightest value of a cgroup file on the way from this process up to the root; version 2 only.
// `read` turns its first line into a number, infinity for "max".
template <typename Read>
double cgroup_minimum(const std::string& file, Read read) {
    double least = std::numeric_limits<double>::infinity();
    std::string group = field("/proc/self/cgroup", "0:");  // "0::/path": what follows the first colon
    group = group.starts_with(':') ? group.substr(1) : "/";
    while (true) {
        const std::string line = first_line_of("/sys/fs/cgroup" + group + "/" + file);
        if (!line.empty() && !line.starts_with("max")) least = std::min(least, read(line));
        const size_t slash = group.rfind('/');
        if (group.size() <= 1 || slash == group.npos) break;
        group.erase(slash == 0 ? 1 : slash);
    }
    return least;
}

int try_memfd() {
    const int file = static_cast<int>(syscall(SYS_memfd_create, "longshore-doctor", MFD_CLOEXEC));
    if (file < 0) return errno;
    int failure = ftruncate(file, kTrialBytes) != 0 ? errno : 0;
    if (failure == 0) {
        void* memory = mmap(nullptr, kTrialBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        failure = memory == MAP_FAILED ? errno : 0;
        if (failure == 0) {
            memset(memory, 1, kTrialBytes);
            munmap(memory, kTrialBytes);
        }
    }
    close(file);
    return failure;
}

std::string limit_text(rlim_t value, bool bytes) {
    if (value == RLIM_INFINITY) return "unlimited";
    return bytes ? bytes_text(value) : std::to_string(value);
}

}  // namespace

void check_machine(Checks* checks) {
    utsname kernel{};
    uname(&kernel);
    const std::string model = field("/proc/cpuinfo", "model name");
    checks->push_back({"machine", Verdict::kGood,
                       fmt::format("{}, {} {} on {}", model.empty() ? "unknown CPU" : model, kernel.sysname,
                                   kernel.release, kernel.machine),
                       ""});
}

void check_cores(Checks* checks) {
    int cores = -1;
    int packages = -1;
    int numa_nodes = -1;
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) == 0) {
        if (hwloc_topology_load(topology) == 0) {
            cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
            packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
            numa_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
        }
        hwloc_topology_destroy(topology);
    }
    cpu_set_t set;
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
    const double quota = cgroup_minimum("cpu.max", [](const std::string& line) {
        double limit = 0;
        double period = 1;
        return sscanf(line.c_str(), "%lf %lf", &limit, &period) == 2 && period > 0
                   ? limit / period
                   : std::numeric_limits<double>::infinity();
    });
    std::string found = fmt::format("{} CPUs allowed; cores: {}, sockets: {}, NUMA nodes: {}", allowed, cores,
                                    packages, numa_nodes);
    if (quota < 1e9) found += fmt::format("; cgroup quota {:.1f} CPUs", quota);
    const char* advice = "";
    if (allowed == 1) {
        advice = "with one CPU there is none to spare: offloaded work waits for the ranks to wait";
    } else if (quota < allowed) {
        advice =
            "the quota is below the CPUs you see: leave ranks out, or service processes are throttled with "
            "them";
    }
    checks->push_back({"cores", *advice != 0 ? Verdict::kWarn : Verdict::kGood, found, advice});
}

void check_memory(Checks* checks) {
    const int failure = try_memfd();
    checks->push_back(
        {"memfd", failure == 0 ? Verdict::kGood : Verdict::kFail,
         failure == 0 ? "shared memory without a file works" : strerror(failure),
         failure == 0 ? "" : "the kernel must be 3.17 or newer and the sandbox allow memfd_create"});

    const uint64_t available = strtoull(field("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10) * 1024;
    const auto read_bytes = [](const std::string& line) { return strtod(line.c_str(), nullptr); };
    const double limit = cgroup_minimum("memory.max", read_bytes);
    struct statvfs shm {};
    const bool mounted = statvfs("/dev/shm", &shm) == 0;
    const uint64_t shm_bytes = mounted ? uint64_t{shm.f_bavail} * shm.f_frsize : 0;
    const std::string found = fmt::format("{} available; cgroup limit {}; /dev/shm {}", bytes_text(available),
                                          limit < 1e18 ? bytes_text(static_cast<uint64_t>(limit)) : "none",
                                          mounted ? bytes_text(shm_bytes) + " free" : "not mounted");
    const char* advice = "";
    if (available < kMemoryWantedBytes || limit < static_cast<double>(kMemoryWantedBytes)) {
        advice = "less than 256 MB: lower LONGSHORE_SNAPSHOT_BYTES_MAX, or give the job more memory";
    } else if (shm_bytes < kMemoryWantedBytes) {
        // Not ours: Longshore's segment is a memfd.
        advice = "your MPI itself may need more in /dev/shm (in a container: --shm-size=1g)";
    }
    checks->push_back({"memory", *advice != 0 ? Verdict::kWarn : Verdict::kGood, found, advice});
}

void check_limits(Checks* checks) {
    rlimit files{};
    rlimit locked{};
    rlimit space{};
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_MEMLOCK, &locked);
    getrlimit(RLIMIT_AS, &space);
    const std::string found =
        fmt::format("open files {}, locked memory {}, address space {}", limit_text(files.rlim_cur, false),
                    limit_text(locked.rlim_cur, true), limit_text(space.rlim_cur, true));
    const char* advice = "";
    if (files.rlim_cur < kFilesWanted) {
        advice = "raise the open files: ulimit -n 1024";
    } else if (space.rlim_cur != RLIM_INFINITY) {
        advice = "mapped memory of peers counts against the address space: ulimit -v unlimited";
    }
    checks->push_back({"limits", *advice != 0 ? Verdict::kWarn : Verdict::kGood, found, advice});
}

}  // namespace longshore::tools
