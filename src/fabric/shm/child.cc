#include "fabric/shm/child.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "fabric/shm/control.h"
#include "fabric/shm/socket.h"

namespace longshore {

Child start_child(const char* path, char* const arguments[], char* const environment[], const CpuMask& cpus) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return {};
    Fd ours(ends[0]), theirs(ends[1]);
    const pid_t pid = fork();
    if (pid != 0) return {pid, std::move(ours)};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!cpus.empty()) cpus.set();
    if (dup2(theirs.get(), kServiceControlFd) < 0) _exit(127);
    execve(path, arguments, environment);
    ProblemReport report;
    report.header = {kControlMagic, ControlKind::kCannotStart};
    snprintf(report.text, sizeof report.text, "%s cannot be run: %s", path, strerror(errno));
    send_packet(theirs, &report, sizeof report);
    _exit(127);
}

}  // namespace longshore
