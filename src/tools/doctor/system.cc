// Checks of the kernel and the hardware: every call that Longshore depends on is made here once.
#include <fcntl.h>
#include <fmt/core.h>
#include <hwloc.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>

#include "tools/doctor/doctor.h"

namespace longshore::tools {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMemoryWantedBytes = 256 * kMiB;
constexpr rlim_t kFilesWanted = 1024;

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

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

std::string size_text(uint64_t bytes) {
    if (bytes >= 10 * 1024 * kMiB) return fmt::format("{} GiB", bytes / (1024 * kMiB));
    return fmt::format("{} MiB", bytes / kMiB);
}

// The tightest value of a cgroup file on the way from this process up to the root; version 2 only.
// `read` turns its first line into a number, infinity for "max".
template <typename Read>
double cgroup_minimum(const std::string& file, Read read) {
    double least = std::numeric_limits<double>::infinity();
    std::string group = field("/proc/self/cgroup", "0:");  // "0::/path": what follows the first colon
    group = group.starts_with(':') ? group.substr(1) : "/";
    while (true) {
        const std::string line = first_line("/sys/fs/cgroup" + group + "/" + file);
        if (!line.empty() && !line.starts_with("max")) least = std::min(least, read(line));
        const size_t slash = group.rfind('/');
        if (group.size() <= 1 || slash == group.npos) break;
        group.erase(slash == 0 ? 1 : slash);
    }
    return least;
}

// Runs `work` in a child process and returns its exit code: 0, or the errno it failed with; -1 if it died.
template <typename Work>
int in_child(Work work) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) _exit(work());
    if (child < 0) return errno;
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// One child reads another one's memory, as two ranks of a job do. `permit` lets the source ask for it first,
// which is what Yama wants at ptrace_scope 1.
int read_from_sibling(bool permit) {
    static volatile uint64_t word = 0;
    constexpr uint64_t kMark = 0x6c6f6e6773686f72;
    int ready[2];
    if (pipe(ready) != 0) return errno;
    const pid_t source = fork();
    if (source == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        word = kMark;
        if (permit) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        while (true) pause();
    }
    close(ready[1]);
    char byte = 0;
    const bool started = source > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    const int failure = !started ? EAGAIN : in_child([&] {
        uint64_t copy = 0;
        iovec local{&copy, sizeof copy};
        iovec remote{const_cast<uint64_t*>(&word), sizeof word};
        const ssize_t count = process_vm_readv(source, &local, 1, &remote, 1, 0);
        if (count < 0) return errno;
        return copy == kMark ? 0 : EIO;
    });
    if (source > 0) {
        kill(source, SIGKILL);
        waitpid(source, nullptr, 0);
    }
    return failure;
}

// One child maps a memfd of another one's, by way of /proc, as ranks do with each other's large blocks.
int map_from_sibling() {
    constexpr uint64_t kMark = 0x6c6f6e6773686f72;
    int ready[2];
    if (pipe(ready) != 0) return errno;
    const auto map = [](int file, int protection) {
        return static_cast<uint64_t*>(mmap(nullptr, 4096, protection, MAP_SHARED, file, 0));
    };
    const pid_t source = fork();
    if (source == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int file = static_cast<int>(syscall(SYS_memfd_create, "longshore-doctor", MFD_CLOEXEC));
        if (file < 0 || ftruncate(file, 4096) != 0) _exit(1);
        uint64_t* memory = map(file, PROT_READ | PROT_WRITE);
        if (memory == MAP_FAILED) _exit(1);
        *memory = kMark;
        if (write(ready[1], &file, sizeof file) != sizeof file) _exit(1);
        while (true) pause();
    }
    close(ready[1]);
    int number = -1;
    const bool started = source > 0 && read(ready[0], &number, sizeof number) == sizeof number;
    close(ready[0]);
    const int failure = !started ? EAGAIN : in_child([&] {
        const int file = open(fmt::format("/proc/{}/fd/{}", source, number).c_str(), O_RDWR | O_CLOEXEC);
        if (file < 0) return errno;
        const uint64_t* memory = map(file, PROT_READ);
        if (memory == MAP_FAILED) return errno;
        return *memory == kMark ? 0 : EIO;
    });
    if (source > 0) {
        kill(source, SIGKILL);
        waitpid(source, nullptr, 0);
    }
    return failure;
}

// "always [madvise] never" means madvise.
std::string chosen(const std::string& path) {
    const std::string line = first_line(path);
    const size_t begin = line.find('['), end = line.find(']');
    return begin == line.npos || end == line.npos ? "unknown" : line.substr(begin + 1, end - begin - 1);
}

int try_memfd() {
    const int file = static_cast<int>(syscall(SYS_memfd_create, "longshore-doctor", MFD_CLOEXEC));
    if (file < 0) return errno;
    int failure = ftruncate(file, kMiB) != 0 ? errno : 0;
    if (failure == 0) {
        void* memory = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        failure = memory == MAP_FAILED ? errno : 0;
        if (failure == 0) {
            memset(memory, 1, kMiB);
            munmap(memory, kMiB);
        }
    }
    close(file);
    return failure;
}

int try_abstract_socket() {
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);  // the kernel chooses an abstract name ("autobind")
    ucred peer{};
    socklen_t peer_size = sizeof peer;
    auto* address = reinterpret_cast<sockaddr*>(&name);
    int failure = 0;
    if (server < 0 || client < 0 || bind(server, address, size) != 0 || listen(server, 1) != 0) {
        failure = errno;
    } else {
        size = sizeof name;
        if (getsockname(server, address, &size) != 0 || connect(client, address, size) != 0 ||
            getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0) {
            failure = errno;
        } else if (peer.uid != geteuid()) {
            failure = EPERM;
        }
    }
    if (server >= 0) close(server);
    if (client >= 0) close(client);
    return failure;
}

int try_pidfd() {
    const int file = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
    if (file < 0) return errno;
    close(file);
    return 0;
}

// Between two processes, over shared memory: the child wakes the parent.
int try_futex() {
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return errno;
    auto* word = static_cast<uint32_t*>(memory);
    const pid_t child = fork();
    if (child == 0) {
        __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
        _exit(0);
    }
    int failure = child < 0 ? errno : 0;
    const timespec limit{1, 0};
    while (failure == 0 && __atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) {
        if (syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit, nullptr, 0) != 0 && errno != EAGAIN &&
            errno != EINTR) {
            failure = errno;
        }
    }
    if (child > 0) waitpid(child, nullptr, 0);
    munmap(memory, 4096);
    return failure;
}

int try_idle_class() {
    const sched_param none{};
    return sched_setscheduler(0, SCHED_IDLE, &none) != 0 ? errno : 0;
}

std::string limit_text(rlim_t value, bool bytes) {
    if (value == RLIM_INFINITY) return "unlimited";
    return bytes ? size_text(value) : std::to_string(value);
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
    std::string found = fmt::format("{} CPUs allowed; {} cores, {} packages, {} NUMA nodes", allowed, cores,
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

void check_peer_copy(Checks* checks) {
    const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
    const std::string yama = scope.empty() ? "no Yama" : "Yama ptrace_scope " + scope;
    int failure = read_from_sibling(false);
    if (failure == 0) {
        checks->push_back(
            {"peer copy", Verdict::kGood, "process_vm_readv between siblings works; " + yama, ""});
        return;
    }
    const int refusal = failure;
    if (failure == EPERM) failure = read_from_sibling(true);
    if (failure == 0) {
        checks->push_back({"peer copy", Verdict::kWarn,
                           "process_vm_readv works only when the source permits it; " + yama,
                           "if offload switches itself off: sysctl kernel.yama.ptrace_scope=0 (as root)"});
        return;
    }
    checks->push_back(
        {"peer copy", Verdict::kFail,
         fmt::format("process_vm_readv between siblings: {}; {}", strerror(refusal), yama),
         "set kernel.yama.ptrace_scope to 0 or 1; in a container add --cap-add=SYS_PTRACE or a seccomp "
         "profile that allows process_vm_readv"});
}

void check_shared_blocks(Checks* checks) {
    const int failure = map_from_sibling();
    if (failure != 0) {
        checks->push_back(
            {"shared blocks", Verdict::kWarn,
             fmt::format("ranks cannot map each other's large blocks: {}", strerror(failure)),
             "allow /proc/PID/fd between processes of one user; until then blocks move by peer copy"});
        return;
    }
    if (first_line("/proc/sys/vm/overcommit_memory") == "2") {
        checks->push_back(
            {"shared blocks", Verdict::kWarn,
             "memory is never overcommitted (vm.overcommit_memory is 2), so large blocks are not shared",
             "sysctl vm.overcommit_memory=0 (as root) lets them move by plain copies"});
        return;
    }
    const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
    const std::string ordinary = chosen(folder + "enabled"), shared = chosen(folder + "shmem_enabled");
    const std::string found = fmt::format(
        "ranks can map each other's large blocks; huge pages: {}, for shared memory: {}", ordinary, shared);
    if (ordinary == "always" && (shared == "never" || shared == "deny")) {
        checks->push_back(
            {"shared blocks", Verdict::kWarn, found,
             "large arrays lose their huge pages, which can slow down computing: echo advise > " + folder +
                 "shmem_enabled (as root), or LONGSHORE_MEMORY_ALIAS=off"});
        return;
    }
    checks->push_back({"shared blocks", Verdict::kGood, found, ""});
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
    const std::string found = fmt::format("{} available; cgroup limit {}; /dev/shm {}", size_text(available),
                                          limit < 1e18 ? size_text(static_cast<uint64_t>(limit)) : "none",
                                          mounted ? size_text(shm_bytes) + " free" : "not mounted");
    const char* advice = "";
    if (available < kMemoryWantedBytes || limit < static_cast<double>(kMemoryWantedBytes)) {
        advice = "less than 256 MiB: lower LONGSHORE_SNAPSHOT_BYTES_MAX, or give the job more memory";
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

void check_kernel_services(Checks* checks) {
    struct Trial {
        const char* name;
        const char* works;
        int failure;
        Verdict if_not;
        const char* advice;
    };
    const Trial trials[] = {
        {"unix sockets", "abstract names and peer credentials work", try_abstract_socket(), Verdict::kFail,
         "the sandbox must allow AF_UNIX sockets with abstract names"},
        {"futex", "wakes between processes", try_futex(), Verdict::kFail, "the sandbox must allow futex"},
        {"pidfd", "the end of a process is noticed at once", try_pidfd(), Verdict::kWarn,
         "needs Linux 5.3 and a sandbox that allows it; without, a lost process is noticed later"},
        {"idle class", "service processes can run in time nobody else wants", in_child(try_idle_class),
         Verdict::kWarn, "without SCHED_IDLE a service process competes with ranks where no core is spare"},
    };
    for (const Trial& trial : trials) {
        const bool works = trial.failure == 0;
        checks->push_back({trial.name, works ? Verdict::kGood : trial.if_not,
                           works ? trial.works : strerror(trial.failure), works ? "" : trial.advice});
    }
}

}  // namespace longshore::tools
