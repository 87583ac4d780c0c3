// Checks of what Longshore asks the kernel for beside memory: each call is made here once.
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cstdint>
#include <cstring>
#include <ctime>

#include "tools/doctor/doctor.h"
#include "tools/doctor/trial.h"

namespace longshore::tools {
namespace {

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

}  // namespace

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
