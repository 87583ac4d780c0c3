// How an example ends its job where one process has met an error that the others do not know of.
#pragma once

#include <mpi.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <utility>

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

// From now on an exception that nobody handles is said with the program's name, then `before_end` is called
// and the job ended. There is deliberately no handler in main(): where none is found, gcc and clang unwind no
// frame (the C++ ABI of Itanium), so that no buffer is freed which MPI, or a task, may still write to until
// the job has ended.
inline void abort_job_on_exceptions(const char* program, std::function<void()> before_end = {}) {
    static const char* name;
    static std::function<void()> last;
    name = program;
    last = std::move(before_end);
    std::set_terminate([] {
        std::set_terminate([] { _exit(1); });  // a second one, while the first ends the job
        int is_running = 0, is_over = 0, rank = 0;
        MPI_Initialized(&is_running);
        MPI_Finalized(&is_over);
        is_running = is_running && !is_over;
        if (is_running) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        const char* what = "an unknown exception";
        const std::exception_ptr exception = std::current_exception();
        try {
            if (exception) std::rethrow_exception(exception);
        } catch (const std::exception& error) {
            what = error.what();
        } catch (...) {
        }
        if (is_running)
            std::fprintf(stderr, "%s: rank %d: %s\n", name, rank, what);
        else
            std::fprintf(stderr, "%s: %s\n", name, what);
        if (last) last();
        if (is_running) abort_job(1);
        _exit(1);
    });
}
