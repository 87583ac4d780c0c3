#include "host/start_service.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace longshore {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
// Above the descriptors that the service process gets, and below the lowest limit of open files (ulimit -n)
// under which an MPI starts: a service process that may have too few says so itself.
constexpr int kFarFd = kReadyFd + 1;

// Shared with the children until they exec: they run in this process's memory while the caller is suspended.
struct Launch {
    const char *path, *role;
    char* const* environment;
    int parameters_fd, ready_fd;
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
    const int far[3] = {fcntl(null, F_DUPFD, kFarFd), fcntl(launch->parameters_fd, F_DUPFD, kFarFd),
                        fcntl(launch->ready_fd, F_DUPFD, kFarFd)};
    if (far[0] < 0 || far[1] < 0 || far[2] < 0) {
        launch->error = errno;
        _exit(127);
    }
    for (int fd = 0; fd < 3; ++fd) dup2(far[0], fd);
    dup2(far[1], kParameterFd);
    dup2(far[2], kReadyFd);
    if (syscall(SYS_close_range, kReadyFd + 1, ~0u, 0) != 0) {
        for (int fd = kReadyFd + 1; fd < 65536; ++fd) close(fd);
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

// What the user says about the network is for the library that service processes and agents load.
std::vector<char*> network_settings() {
    std::vector<char*> settings;
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        for (const char* prefix : {"UCX_", "LONGSHORE_UCX_", "LONGSHORE_INTERNAL_NETWORK="}) {
            if (strncmp(*at, prefix, strlen(prefix)) == 0) settings.push_back(*at);
        }
    }
    settings.push_back(nullptr);
    return settings;
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

bool ServiceStarter::start(const char* path, const SupervisorParameters& parameters, std::string* error) {
    static_assert(sizeof parameters < 65536, "fits a pipe, so that writing it does not block");
    return start(path, "supervisor", std::as_bytes(std::span(&parameters, 1)), parameters.service.limit_s,
                 error);
}

bool ServiceStarter::start_agent(const char* path, uint32_t limit_s, bool exports, std::string* error) {
    AgentParameters parameters;
    parameters.limit_s = limit_s;
    parameters.exports = exports;
    return start(path, "agent", std::as_bytes(std::span(&parameters, 1)), limit_s, error);
}

bool ServiceStarter::start(const char* path, const char* role, std::span<const std::byte> parameters,
                           uint32_t limit_s, std::string* error) {
    int down[2], up[2];
    *error = std::string("cannot start ") + path + ": ";
    if (pipe2(down, O_CLOEXEC) != 0) {
        *error += strerror(errno);
        return false;
    }
    Fd theirs(down[0]), parameter_end(down[1]);
    if (pipe2(up, O_CLOEXEC) != 0) {
        *error += strerror(errno);
        return false;
    }
    ready_ = Fd(up[0]);
    Fd ready_end(up[1]);
    fcntl(ready_.get(), F_SETFL, O_NONBLOCK);
    if (write(parameter_end.get(), parameters.data(), parameters.size()) !=
        static_cast<ssize_t>(parameters.size())) {
        *error += strerror(errno);
        return false;
    }
    const Mapping stacks = Mapping::anonymous(2 * kStackBytes);
    std::vector<char*> environment = network_settings();
    Launch launch{path, role, environment.data(), theirs.get(), ready_end.get(), stacks.data() + kStackBytes,
                  0,    0};
    if (!stacks) {
        *error += strerror(ENOMEM);
        return false;
    }
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
    if (child < 0 || launch.error != 0) {
        *error += strerror(child < 0 ? clone_error : launch.error);
        return false;
    }
    deadline_ns_ = now_ns() + limit_s * 1'000'000'000ull;
    error->clear();
    return true;
}

ServiceStarter::State ServiceStarter::test(ServiceReady* ready, std::vector<std::byte>* address,
                                           std::string* error) {
    const auto fail = [&](const std::string& why) {
        *error = why;
        return State::kFailed;
    };
    std::byte buffer[4096];
    ssize_t got = 0;
    while ((got = read(ready_.get(), buffer, sizeof buffer)) > 0)
        heard_.insert(heard_.end(), buffer, buffer + got);
    const bool waits = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (heard_.size() >= sizeof *ready) {
        memcpy(static_cast<void*>(ready), heard_.data(), sizeof *ready);
        if (ready->header.magic != kControlMagic) return fail("longshored is of another build");
        ready->reason[sizeof ready->reason - 1] = 0;
        if (!ready->ok) return fail(std::string("longshored: ") + ready->reason);
        if (heard_.size() - sizeof *ready == ready->address_bytes) {
            address->assign(heard_.begin() + sizeof *ready, heard_.end());
            return State::kReady;
        }
    }
    if (!waits) return fail("longshored ended before it was ready (is it of the same build?)");
    return now_ns() < deadline_ns_ ? State::kPending : fail("longshored did not answer in time");
}

}  // namespace longshore
