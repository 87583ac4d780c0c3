// How an example ends its job where one process has met an error that the others do not know of.
#pragma once

#include <mpi.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

// As MPI_Abort, once all that this process has said on its standard error is read: a launcher forwards
// nothing that it has not read by then. One that waits for a core is waited for, for a minute at most.
[[noreturn]] inline void abort_job(int status) {
    std::fflush(nullptr);
    struct stat what {};
    const bool is_pipe = fstat(STDERR_FILENO, &what) == 0 && S_ISFIFO(what.st_mode);
    const auto is_unread = [] {
        int bytes = 0;
        pollfd end{STDERR_FILENO, 0, 0};  // POLLERR: no reader
        return ioctl(STDERR_FILENO, FIONREAD, &bytes) == 0 && bytes > 0 && poll(&end, 1, 0) == 0;
    };
    constexpr int kLooksPerS = 100, kLimitS = 60;
    const timespec pause = {0, 1'000'000'000 / kLooksPerS};
    for (int i = 0; is_pipe && i < kLimitS * kLooksPerS && is_unread(); ++i) nanosleep(&pause, nullptr);
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
}
