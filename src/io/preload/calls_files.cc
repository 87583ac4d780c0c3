// Calls that open, close, double and name files.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/preload/behind.h"
#include "io/preload/next.h"
#include "io/preload/opening.h"
#include "io/preload/shown.h"

using namespace longshore::io;

namespace {

// Before a call that names files: those that match are written.
void settle_names(int folder, const char* path, int flags) {
    if (!may_concern(folder, path) || !is_rank()) return;
    const Guard guard;
    if (pattern_of(folder, path) >= 0) settle_path(folder, path, flags);
}

mode_t mode_of(int flags, va_list more) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

// After the system has made `as` of `fd`.
int doubled(int fd, int as) {
    if (as < 0 || (!concerns(fd) && !concerns(as)) || !is_rank()) return as;
    const Guard guard;
    add_descriptor(fd, as);
    return as;
}

// A descriptor that the program has closed and the system has not.
bool is_closed_already(int fd) {
    return concerns(fd) && (owners[fd].load() & kClosing) != 0 && is_rank();
}

int fail(int error) {
    errno = error;
    return -1;
}

}  // namespace

// --- open

SHOWN int open(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_with(AT_FDCWD, path, flags, Opener::kCall, [&] { return NEXT(open)(path, flags, mode); });
}
SAME(int, open64, open, (const char*, int, ...), )
SHOWN int openat(int folder, const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    return open_with(folder, path, flags, Opener::kCall,
                     [&] { return NEXT(openat)(folder, path, flags, mode); });
}
SAME(int, openat64, openat, (int, const char*, int, ...), )
SHOWN int creat(const char* path, mode_t mode) {
    return open_with(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, Opener::kCall,
                     [&] { return NEXT(creat)(path, mode); });
}
SAME(int, creat64, creat, (const char*, mode_t), )
extern "C" int __open_2(const char*, int);
extern "C" int __open64_2(const char*, int);
extern "C" int __openat_2(int, const char*, int);
extern "C" int __openat64_2(int, const char*, int);
SHOWN int __open_2(const char* path, int flags) {
    return open_with(AT_FDCWD, path, flags, Opener::kCall, [&] { return NEXT(__open_2)(path, flags); });
}
SAME(int, __open64_2, __open_2, (const char*, int), )
SHOWN int __openat_2(int folder, const char* path, int flags) {
    return open_with(folder, path, flags, Opener::kCall,
                     [&] { return NEXT(__openat_2)(folder, path, flags); });
}
SAME(int, __openat64_2, __openat_2, (int, const char*, int), )

// --- close and double

SHOWN int close(int fd) {
    if (__builtin_expect(is_own_descriptor(fd), 0)) return fail(EBADF);
    if (!concerns(fd) || !is_rank()) return NEXT(close)(fd);
    const Guard guard;
    bool is_closed = false;
    File* const file = file_of(fd, &is_closed);
    if (is_closed) return fail(EBADF);
    int error = 0;
    if (file == nullptr || !close_behind(*file, fd, &error)) {
        forget_descriptor(fd);
        const int result = NEXT(close)(fd);
        if (error == 0) return result;
    }
    return error == 0 ? 0 : fail(error);
}

// What lies between first and last, one by one, because some may be this library's.
SHOWN int close_range(unsigned first, unsigned last, int flags) __THROW {
    if (is_rank() && (flags & CLOSE_RANGE_CLOEXEC) == 0) {
        for (unsigned fd = first; fd <= last && fd < static_cast<unsigned>(kDescriptorsMax); ++fd) {
            if (is_own_descriptor(static_cast<int>(fd))) {
                if (fd > first) NEXT(close_range)(first, fd - 1, flags);
                first = fd + 1;
            } else if (concerns(static_cast<int>(fd)) && !is_closed_already(static_cast<int>(fd))) {
                close(static_cast<int>(fd));
            }
        }
        const Guard guard;
        close_written(true);
        if (first > last) return 0;
    }
    return NEXT(close_range)(first, last, flags);
}
SHOWN void closefrom(int first) __THROW {
    close_range(first > 0 ? static_cast<unsigned>(first) : 0, ~0u, 0);
}

SHOWN int dup(int fd) __THROW {
    return is_closed_already(fd) ? fail(EBADF) : doubled(fd, with_room([&] { return NEXT(dup)(fd); }));
}
SHOWN int dup2(int fd, int as) __THROW {
    if (is_closed_already(fd)) return fail(EBADF);
    return is_own_descriptor(as) ? fail(EBUSY) : doubled(fd, NEXT(dup2)(fd, as));
}
SHOWN int dup3(int fd, int as, int flags) __THROW {
    if (is_closed_already(fd)) return fail(EBADF);
    return is_own_descriptor(as) ? fail(EBUSY) : doubled(fd, NEXT(dup3)(fd, as, flags));
}

SHOWN int fcntl(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    void* const argument = va_arg(more, void*);
    va_end(more);
    const auto call = [&] { return NEXT(fcntl)(fd, command, argument); };
    const bool doubles = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (!concerns(fd) || !is_rank()) return doubles ? with_room(call) : call();
    if (is_closed_already(fd)) return fail(EBADF);
    if (doubles) return doubled(fd, with_room(call));
    if (command == F_GETFD || command == F_SETFD || command == F_GETFL) return call();
    const auto flags = static_cast<int>(reinterpret_cast<intptr_t>(argument));
    if (command == F_SETFL && (flags & (O_APPEND | O_DIRECT)) == 0) return call();
    int error = 0;
    {
        const Guard guard;
        bool is_closed = false;
        File* const file = file_of(fd, &is_closed);
        if (file != nullptr) error = drain(*file);
        if (file != nullptr) let_go(*file, command == F_SETFL ? Reason::kAppend : Reason::kLocked);
    }
    return error == 0 ? call() : fail(error);  // without the lock: some wait for others
}
SAME(int, fcntl64, fcntl, (int, int, ...), )

// --- names

SHOWN int chdir(const char* path) __THROW {
    const int result = NEXT(chdir)(path);
    if (result == 0 && is_rank()) {
        const Guard guard;
        see_working_directory();
    }
    return result;
}
SHOWN int fchdir(int fd) __THROW {
    const int result = NEXT(fchdir)(fd);
    if (result == 0 && is_rank()) {
        const Guard guard;
        see_working_directory();
    }
    return result;
}

SHOWN int rename(const char* from, const char* to) __THROW {
    settle_names(AT_FDCWD, from, AT_SYMLINK_NOFOLLOW);
    settle_names(AT_FDCWD, to, AT_SYMLINK_NOFOLLOW);
    return NEXT(rename)(from, to);
}
SHOWN int renameat(int from_folder, const char* from, int to_folder, const char* to) __THROW {
    settle_names(from_folder, from, AT_SYMLINK_NOFOLLOW);
    settle_names(to_folder, to, AT_SYMLINK_NOFOLLOW);
    return NEXT(renameat)(from_folder, from, to_folder, to);
}
SHOWN int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                    unsigned flags) __THROW {
    settle_names(from_folder, from, AT_SYMLINK_NOFOLLOW);
    settle_names(to_folder, to, AT_SYMLINK_NOFOLLOW);
    return NEXT(renameat2)(from_folder, from, to_folder, to, flags);
}
SHOWN int link(const char* from, const char* to) __THROW {
    settle_names(AT_FDCWD, from, 0);
    settle_names(AT_FDCWD, to, 0);
    return NEXT(link)(from, to);
}
SHOWN int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) __THROW {
    settle_names(from_folder, from, 0);
    return NEXT(linkat)(from_folder, from, to_folder, to, flags);
}
SHOWN int unlink(const char* path) __THROW {
    settle_names(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return NEXT(unlink)(path);
}
SHOWN int unlinkat(int folder, const char* path, int flags) __THROW {
    settle_names(folder, path, AT_SYMLINK_NOFOLLOW);
    return NEXT(unlinkat)(folder, path, flags);
}
SHOWN int remove(const char* path) __THROW {
    settle_names(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return NEXT(remove)(path);
}
SHOWN int truncate(const char* path, off_t length) __THROW {
    if (may_concern(AT_FDCWD, path) && is_rank()) {
        const Guard guard;
        if (pattern_of(AT_FDCWD, path) >= 0) share_path(path);
    }
    return NEXT(truncate)(path, length);
}
SAME(int, truncate64, truncate, (const char*, off64_t), __THROW)
SHOWN int utimensat(int folder, const char* path, const timespec times[2], int flags) __THROW {
    settle_names(folder, path, flags);
    return NEXT(utimensat)(folder, path, times, flags);
}
struct utimbuf;
extern "C" int utime(const char*, const utimbuf*) __THROW;
SHOWN int utime(const char* path, const utimbuf* times) __THROW {
    settle_names(AT_FDCWD, path, 0);
    return NEXT(utime)(path, times);
}
extern "C" int utimes(const char*, const timeval[2]) __THROW;
SHOWN int utimes(const char* path, const timeval times[2]) __THROW {
    settle_names(AT_FDCWD, path, 0);
    return NEXT(utimes)(path, times);
}

// --- sizes by name

SHOWN int stat(const char* path, struct stat* status) __THROW {
    settle_names(AT_FDCWD, path, 0);
    return NEXT(stat)(path, status);
}
extern "C" int stat64(const char*, struct stat64*) __THROW;
SAME(int, stat64, stat, (const char*, struct stat64*), __THROW)
SHOWN int lstat(const char* path, struct stat* status) __THROW {
    settle_names(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return NEXT(lstat)(path, status);
}
extern "C" int lstat64(const char*, struct stat64*) __THROW;
SAME(int, lstat64, lstat, (const char*, struct stat64*), __THROW)
SHOWN int fstatat(int folder, const char* path, struct stat* status, int flags) __THROW {
    if (path != nullptr && path[0] == 0 && (flags & AT_EMPTY_PATH) != 0 && concerns(folder))
        return fstat(folder, status);
    settle_names(folder, path, flags & AT_SYMLINK_NOFOLLOW);
    return NEXT(fstatat)(folder, path, status, flags);
}
extern "C" int fstatat64(int, const char*, struct stat64*, int) __THROW;
SAME(int, fstatat64, fstatat, (int, const char*, struct stat64*, int), __THROW)
SHOWN int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) __THROW {
    if (path == nullptr || path[0] != 0 || (flags & AT_EMPTY_PATH) == 0 || !concerns(folder)) {
        settle_names(folder, path, flags & AT_SYMLINK_NOFOLLOW);
        return NEXT(statx)(folder, path, flags, mask, status);
    }
    struct stat known;
    if (fstat(folder, &known) != 0) return -1;
    const int result = NEXT(statx)(folder, path, flags, mask, status);
    if (result == 0) status->stx_size = static_cast<uint64_t>(known.st_size);
    return result;
}
// As older programs call them.
SHOWN int __xstat(int, const char* path, struct stat* status) __THROW {
    return stat(path, status);
}
extern "C" int __xstat64(int, const char*, struct stat64*) __THROW;
SAME(int, __xstat64, __xstat, (int, const char*, struct stat64*), __THROW)
SHOWN int __lxstat(int, const char* path, struct stat* status) __THROW {
    return lstat(path, status);
}
extern "C" int __lxstat64(int, const char*, struct stat64*) __THROW;
SAME(int, __lxstat64, __lxstat, (int, const char*, struct stat64*), __THROW)
SHOWN int __fxstatat(int, int folder, const char* path, struct stat* status, int flags) __THROW {
    return fstatat(folder, path, status, flags);
}
extern "C" int __fxstatat64(int, int, const char*, struct stat64*, int) __THROW;
SAME(int, __fxstatat64, __fxstatat, (int, int, const char*, struct stat64*, int), __THROW)
