// Checks of how a rank reaches another's memory: each is made here once, between two processes.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "tools/doctor/doctor.h"
#include "tools/doctor/trial.h"

namespace longshore::tools {
namespace {

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
    const std::string line = first_line_of(path);
    const size_t begin = line.find('['), end = line.find(']');
    return begin == line.npos || end == line.npos ? "unknown" : line.substr(begin + 1, end - begin - 1);
}

// The library of another allocator that ranks started from here would have; "" where malloc is libc's. As the
// preloaded library finds out for itself (memory/interpose.c).
std::string preloaded_allocator() {
    Dl_info libc, own;
    void* const of_libc = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    void* const of_malloc = dlsym(RTLD_DEFAULT, "malloc");
    if (of_libc == nullptr || of_malloc == nullptr || dladdr(of_libc, &libc) == 0 ||
        dladdr(of_malloc, &own) == 0 || own.dli_fbase == libc.dli_fbase)
        return "";
    const std::string file = own.dli_fname;
    return file.find("/liblongshore") == file.npos ? file : "";
}

}  // namespace

void check_peer_copy(Checks* checks) {
    const std::string scope = first_line_of("/proc/sys/kernel/yama/ptrace_scope");
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
    if (first_line_of("/proc/sys/vm/overcommit_memory") == "2") {
        checks->push_back(
            {"shared blocks", Verdict::kWarn,
             "memory is never overcommitted (vm.overcommit_memory is 2), so large blocks are not shared",
             "sysctl vm.overcommit_memory=0 (as root) lets them move by plain copies"});
        return;
    }
    if (const std::string file = preloaded_allocator(); !file.empty()) {
        checks->push_back(
            {"shared blocks", Verdict::kWarn,
             fmt::format("malloc is that of {}, whose blocks are not shared: they move by way of the system, "
                         "at about a third of the speed",
                         file),
             "take it out of LD_PRELOAD, or have MPI_Alloc_mem give the buffers of collectives"});
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

}  // namespace longshore::tools
