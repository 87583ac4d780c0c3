#include "temporary.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "file_writer.h"

namespace bigsort {

namespace {

constexpr std::size_t kPathBytesMax = 2048;

void copy_path(char* to, const std::string& path) {
    std::strncpy(to, path.c_str(), kPathBytesMax - 1);
}

}  // namespace

// Two buffers for the name, so that the child never reads a half-written one.
struct Temporary::Shared {
    std::atomic<bool> armed{false}, quiet{false};
    std::atomic<int> which{0};
    int rank = -1;
    char who[64] = {};
    char folder[kPathBytesMax] = {};
    char unfinished[kPathBytesMax] = {};
    char file[2][kPathBytesMax] = {};
};

Temporary::Temporary(const char* who) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    shared_ = new (memory) Shared;
    std::strncpy(shared_->who, who, sizeof(shared_->who) - 1);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw FileError("make", "a pipe", errno);
    const pid_t child = fork();
    if (child < 0) throw FileError("start", "a process that cleans up", errno);
    if (child == 0) {
        // A second fork: the rank's MPI must not find a child that it has not started.
        if (fork() != 0) _exit(0);
        guard(ends[0], shared_);
    }
    waitpid(child, nullptr, 0);
    close(ends[0]);
    pipe_ = ends[1];
}

Temporary::~Temporary() {
    if (pipe_ >= 0) close(pipe_);
    munmap(shared_, sizeof(Shared));
}

void Temporary::guard(int pipe, Shared* shared) {
    setsid();
    prctl(PR_SET_NAME, "bigsort_cleaner");  // told apart from its parent in lists of processes
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, unsigned(pipe) - 1, 0);
    close_range(unsigned(pipe) + 1, ~0u, 0);
    char byte;
    while (read(pipe, &byte, 1) < 0 && errno == EINTR) {
    }
    if (!shared->armed) _exit(0);
    char line[2 * kPathBytesMax + 256];
    const char* file = shared->file[shared->which];
    const int bytes =
        std::snprintf(line, sizeof(line), "bigsort: %s %d ended before its time%s%s%s\n", shared->who,
                      shared->rank, file[0] ? " while " : "", file, file[0] ? " was being written" : "");
    if (!shared->quiet && write(STDERR_FILENO, line, std::size_t(bytes)) < 0) {
        // Nobody reads it any more.
    }
    if (shared->unfinished[0]) unlink(shared->unfinished);
    // A peer that has not ended yet may make another file meanwhile.
    constexpr int kTriesMax = 500;
    if (shared->folder[0]) remove_folder(shared->folder, kTriesMax);
    _exit(0);
}

void Temporary::make_folder(const std::string& path) {
    const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
    if (absolute.size() >= kPathBytesMax) throw FileError("use", path, ENAMETOOLONG);
    copy_path(shared_->folder, absolute);
    if (mkdir(absolute.c_str(), 0700) != 0) {
        const int error = errno;
        shared_->folder[0] = 0;
        throw FileError("make the folder", absolute, error);
    }
    folder_ = absolute;
    shared_->armed = true;
}

void Temporary::set_unfinished(const std::string& path) {
    if (path.size() < kPathBytesMax) copy_path(shared_->unfinished, path);
}

void Temporary::set_rank(int rank) {
    shared_->rank = rank;
    shared_->armed = true;
}

void Temporary::name(const std::string& path) {
    const int other = 1 - shared_->which;
    copy_path(shared_->file[other], path);
    shared_->which = other;
}

void Temporary::remove() {
    shared_->quiet = true;
    if (shared_->unfinished[0]) unlink(shared_->unfinished);
    if (folder_.empty() || remove_folder(folder_, 1)) let_go();
}

void Temporary::let_go() {
    shared_->armed = false;
}

bool remove_folder(const std::string& path, int tries_max) {
    for (int i = 0; i < tries_max; ++i) {
        if (i > 0) usleep(20'000);
        std::error_code error;
        std::filesystem::remove_all(path, error);
        if (!error) return true;
    }
    return false;
}

}  // namespace bigsort
