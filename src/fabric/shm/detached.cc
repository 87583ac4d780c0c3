#include "fabric/shm/detached.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fabric/shm/system.h"

namespace longshore {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
// Above the descriptors that the program gets, and below the lowest limit of open files (ulimit -n) under
// which an MPI starts: a service process that may have too few says so itself.
constexpr int kFarFd = kFirstDetachedFd + static_cast<int>(kDetachedFdsMax);

// Shared with the children until they exec: they run in this process's memory while the caller is suspended.
struct Launch {
    const char *path, *role;
    char* const* environment;
    std::span<const int> descriptors;
    std::byte* inner_stack;
    int exit_signal, error;
};

// What runs in the children leaves the caller's memory without returning: the address sanitizer would go on
// believing that their variables lie where the stacks were, whatever is mapped there next.
#define ON_A_STACK_OF_ITS_OWN __attribute__((no_sanitize_address))

// Only what is safe between fork and exec. The signal table and descriptors are this child's own.
ON_A_STACK_OF_ITS_OWN int exec_role(void* argument) {
    auto* launch = static_cast<Launch*>(argument);
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    for (int s = 1; s < 65; ++s) sigaction(s, &plain, nullptr);
    const int null = open("/dev/null", O_RDWR);
    const int far_null = fcntl(null, F_DUPFD, kFarFd);
    int far[kDetachedFdsMax];
    bool all = far_null >= 0;
    const size_t count = launch->descriptors.size();
    for (size_t i = 0; i < count; ++i) {
        far[i] = fcntl(launch->descriptors[i], F_DUPFD, kFarFd);
        all = all && far[i] >= 0;
    }
    if (!all) {
        launch->error = errno;
        _exit(127);
    }
    for (int fd = 0; fd < kFirstDetachedFd; ++fd) dup2(far_null, fd);
    int next = kFirstDetachedFd;
    for (size_t i = 0; i < count; ++i) dup2(far[i], next++);
    if (syscall(SYS_close_range, next, ~0u, 0) != 0) {
        for (int fd = next; fd < 65536; ++fd) close(fd);
    }
    if (chdir("/") != 0) launch->error = 0;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    char program[] = "longshored:";
    char* const arguments[] = {program, const_cast<char*>(launch->role), nullptr};
    execve(launch->path, arguments, launch->environment);
    launch->error = errno;
    _exit(127);
}

ON_A_STACK_OF_ITS_OWN int leave_family(void* argument) {
    auto* launch = static_cast<Launch*>(argument);
    // A process group of its own, so that neither the terminal's nor the launcher's signals reach it, but the
    // session of the rank: the kernel shares out processor time by session first (autogroup), and a service
    // process that takes only idle time must be compared with the ranks themselves.
    setpgid(0, 0);
    if (clone(exec_role, launch->inner_stack + kStackBytes, CLONE_VM | CLONE_VFORK | launch->exit_signal,
              argument) < 0)
        launch->error = errno;
    _exit(0);
}

}  // namespace

int start_detached(const char* path, const char* role, char* const environment[],
                   std::span<const int> descriptors) {
    if (descriptors.size() > kDetachedFdsMax) return EINVAL;
    const Mapping stacks = Mapping::anonymous(2 * kStackBytes);
    Launch launch{path, role, environment, descriptors, stacks.data() + kStackBytes, 0, 0};
    if (!stacks) return ENOMEM;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    // No exit signal: the application gets no SIGCHLD, and its wait(-1) does not see this child. An emulator
    // of user programs may know only children that have one.
    const auto start_child = [&](int exit_signal) {
        launch.exit_signal = exit_signal;
        return clone(leave_family, stacks.data() + kStackBytes, CLONE_VM | CLONE_VFORK | exit_signal,
                     &launch);
    };
    int child = start_child(0);
    if (child < 0 && errno == EINVAL) child = start_child(SIGCHLD);
    const int clone_error = errno;
    if (child > 0) {
        while (waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return child < 0 ? clone_error : launch.error;
}

}  // namespace longshore
