// Calls on descriptors that read, write, move offsets or ask for sizes. Each begins with a look at a table: a
// descriptor that is not of a file written behind is the system's.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/preload/behind.h"
#include "io/preload/next.h"
#include "io/preload/shown.h"

using namespace longshore::io;

namespace {

constexpr size_t kWriteBytesMax = 0x7ffff000;  // the system writes no more in one call

// What a call is told by this library alone. False: the system is to be called.
struct Answer {
    bool is_given = false;
    ssize_t value = 0;
    ssize_t give(ssize_t what) {
        is_given = true;
        return value = what;
    }
    ssize_t fail(int error) {
        errno = error;
        return give(-1);
    }
};

// The file of a descriptor for a call that goes behind or waits. Null: `answer` has what there is to say.
File* begin(int fd, Answer* answer) {
    bool is_closed = false;
    File* const file = file_of(fd, &is_closed);
    if (is_closed) answer->fail(EBADF);
    return file;
}

// Before a call of the system that looks at the file: all is written.
File* begin_drained(int fd, Answer* answer) {
    File* const file = begin(fd, answer);
    const int error = file != nullptr ? drain(*file) : 0;
    if (error != 0) answer->fail(error);
    return error == 0 ? file : nullptr;
}

// Before a call that this library knows nothing of.
void begin_let_go(int fd, Reason reason, Answer* answer) {
    File* const file = begin_drained(fd, answer);
    if (file != nullptr) let_go(*file, reason);
}

// The call of a file that is written, and its size after it.
template <class Call>
auto drained(int fd, Call call) -> decltype(call()) {
    if (!concerns(fd)) return call();
    const Guard guard;
    Answer answer;
    File* const file = begin_drained(fd, &answer);
    if (answer.is_given) return static_cast<decltype(call())>(answer.value);
    const auto result = call();
    struct stat status;
    const int error = errno;
    if (file != nullptr && NEXT(fstat)(fd, &status) == 0) file->size = status.st_size;
    errno = error;
    return result;
}

// A call without a lock, because it may wait for others. False: it is not to be made.
bool lets_go(int fd, Reason reason) {
    if (!concerns(fd)) return true;
    const Guard guard;
    Answer answer;
    begin_let_go(fd, reason, &answer);
    return !answer.is_given;
}

ssize_t write_parts(int fd, const iovec* parts, int count, const off_t* at, Answer* answer) {
    size_t bytes = 0;
    if (count < 0 || count > IOV_MAX || (at != nullptr && *at < 0)) return answer->fail(EINVAL);
    for (int i = 0; i < count; ++i) {
        if (parts[i].iov_len > static_cast<size_t>(SSIZE_MAX) - bytes) return answer->fail(EINVAL);
        if (parts[i].iov_base == nullptr && parts[i].iov_len != 0) return answer->fail(EFAULT);
        bytes += parts[i].iov_len;
    }
    const Guard guard;
    File* const file = begin(fd, answer);
    if (file == nullptr) return answer->value;
    int error = 0;
    if (!may_write_behind(*file, &error)) return error != 0 ? answer->fail(error) : 0;
    if (bytes > kWriteBytesMax) bytes = kWriteBytesMax;
    int64_t offset = at != nullptr ? *at : file->offset;
    // Too far for any file: the system says so.
    if (offset > INT64_MAX - static_cast<int64_t>(bytes)) return answer->fail(EFBIG);
    size_t left = bytes;
    for (int i = 0; i < count && left != 0; ++i) {
        const size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
        error = write_behind(*file, parts[i].iov_base, part, offset);
        if (error != 0) return answer->fail(error);
        offset += static_cast<int64_t>(part);
        left -= part;
        if (at == nullptr) file->offset = offset;
    }
    return answer->give(static_cast<ssize_t>(bytes));
}

// What a file is read by at its own offset, which the system does not know.
template <class Call>
ssize_t read_on(int fd, Call call) {
    if (!concerns(fd)) return call();
    const Guard guard;
    Answer answer;
    File* const file = begin_drained(fd, &answer);
    if (answer.is_given) return answer.value;
    if (file == nullptr) return call();
    set_system_offset(*file, fd);
    const ssize_t got = call();
    if (got > 0) file->offset += got;
    return got;
}

}  // namespace

// --- write

SHOWN ssize_t write(int fd, const void* data, size_t bytes) {
    if (concerns(fd)) {
        const iovec part{const_cast<void*>(data), bytes};
        Answer answer;
        const ssize_t written = write_parts(fd, &part, 1, nullptr, &answer);
        if (answer.is_given) return written;
    }
    return NEXT(write)(fd, data, bytes);
}

SHOWN ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
    if (concerns(fd)) {
        const iovec part{const_cast<void*>(data), bytes};
        Answer answer;
        const ssize_t written = write_parts(fd, &part, 1, &offset, &answer);
        if (answer.is_given) return written;
    }
    return NEXT(pwrite)(fd, data, bytes, offset);
}
SAME(ssize_t, pwrite64, pwrite, (int, const void*, size_t, off64_t), )

SHOWN ssize_t writev(int fd, const iovec* parts, int count) {
    if (concerns(fd)) {
        Answer answer;
        const ssize_t written = write_parts(fd, parts, count, nullptr, &answer);
        if (answer.is_given) return written;
    }
    return NEXT(writev)(fd, parts, count);
}

SHOWN ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
    if (concerns(fd)) {
        Answer answer;
        const ssize_t written = write_parts(fd, parts, count, &offset, &answer);
        if (answer.is_given) return written;
    }
    return NEXT(pwritev)(fd, parts, count, offset);
}
SAME(ssize_t, pwritev64, pwritev, (int, const iovec*, int, off64_t), )

// With flags (RWF_DSYNC, RWF_APPEND) it is a call that is not understood.
SHOWN ssize_t pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    if (flags == 0) return offset == -1 ? writev(fd, parts, count) : pwritev(fd, parts, count, offset);
    return lets_go(fd, Reason::kOther) ? NEXT(pwritev2)(fd, parts, count, offset, flags) : -1;
}
SAME(ssize_t, pwritev64v2, pwritev2, (int, const iovec*, int, off64_t, int), )

// --- read

SHOWN ssize_t read(int fd, void* data, size_t bytes) {
    return read_on(fd, [&] { return NEXT(read)(fd, data, bytes); });
}
extern "C" ssize_t __read_chk(int, void*, size_t, size_t);
SHOWN ssize_t __read_chk(int fd, void* data, size_t bytes, size_t room) {
    return read_on(fd, [&] { return NEXT(__read_chk)(fd, data, bytes, room); });
}
SHOWN ssize_t readv(int fd, const iovec* parts, int count) {
    return read_on(fd, [&] { return NEXT(readv)(fd, parts, count); });
}
SHOWN ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
    return drained(fd, [&] { return NEXT(pread)(fd, data, bytes, offset); });
}
SAME(ssize_t, pread64, pread, (int, void*, size_t, off64_t), )
extern "C" ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
SHOWN ssize_t __pread_chk(int fd, void* data, size_t bytes, off_t offset, size_t room) {
    return drained(fd, [&] { return NEXT(__pread_chk)(fd, data, bytes, offset, room); });
}
extern "C" ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
SAME(ssize_t, __pread64_chk, __pread_chk, (int, void*, size_t, off64_t, size_t), )
SHOWN ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
    return drained(fd, [&] { return NEXT(preadv)(fd, parts, count, offset); });
}
SAME(ssize_t, preadv64, preadv, (int, const iovec*, int, off64_t), )
SHOWN ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    const auto call = [&] { return NEXT(preadv2)(fd, parts, count, offset, flags); };
    return offset == -1 ? read_on(fd, call) : drained(fd, call);
}
SAME(ssize_t, preadv64v2, preadv2, (int, const iovec*, int, off64_t, int), )

// --- offsets and sizes

SHOWN off_t lseek(int fd, off_t offset, int whence) __THROW {
    if (!concerns(fd)) return NEXT(lseek)(fd, offset, whence);
    const Guard guard;
    Answer answer;
    File* file = begin(fd, &answer);
    if (file != nullptr && whence > SEEK_END) file = begin_drained(fd, &answer);
    if (answer.is_given) return answer.value;
    if (file == nullptr) return NEXT(lseek)(fd, offset, whence);
    if (whence < 0 || whence > SEEK_END) {
        const off_t at = NEXT(lseek)(fd, offset, whence);
        if (at >= 0) file->offset = at;
        return at;
    }
    const int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file->offset : size_of(*file, fd);
    int64_t to = 0;
    if (__builtin_add_overflow(from, offset, &to)) return answer.fail(EOVERFLOW);
    if (to < 0) return answer.fail(EINVAL);
    return file->offset = to;
}
SAME(off64_t, lseek64, lseek, (int, off64_t, int), __THROW)

SHOWN int fstat(int fd, struct stat* status) __THROW {
    if (!concerns(fd)) return NEXT(fstat)(fd, status);
    const Guard guard;
    Answer answer;
    File* const file = begin(fd, &answer);
    if (answer.is_given) return -1;
    const int64_t size = file != nullptr ? size_of(*file, fd) : 0;
    const int result = NEXT(fstat)(fd, status);
    if (result == 0 && file != nullptr) status->st_size = size;
    return result;
}
extern "C" int fstat64(int, struct stat64*) __THROW;
SAME(int, fstat64, fstat, (int, struct stat64*), __THROW)
// Programs that were linked to an older C library. The version is that of the structure: the system's.
SHOWN int __fxstat(int, int fd, struct stat* status) __THROW {
    return fstat(fd, status);
}
extern "C" int __fxstat64(int, int, struct stat64*) __THROW;
SAME(int, __fxstat64, __fxstat, (int, int, struct stat64*), __THROW)

SHOWN int ftruncate(int fd, off_t length) __THROW {
    if (!concerns(fd) || length < 0) return NEXT(ftruncate)(fd, length);
    const Guard guard;
    Answer answer;
    File* const file = begin(fd, &answer);
    if (answer.is_given) return -1;
    int error = 0;
    if (file == nullptr || !may_write_behind(*file, &error)) {
        if (error == 0) return NEXT(ftruncate)(fd, length);
    } else {
        error = truncate_behind(*file, length);
    }
    return error == 0 ? 0 : static_cast<int>(answer.fail(error));
}
SAME(int, ftruncate64, ftruncate, (int, off64_t), __THROW)

// --- to the disk, and what asks the system about the file

SHOWN int fsync(int fd) {
    return drained(fd, [&] { return NEXT(fsync)(fd); });
}
SHOWN int fdatasync(int fd) {
    return drained(fd, [&] { return NEXT(fdatasync)(fd); });
}
SHOWN int syncfs(int fd) __THROW {
    return drained(fd, [&] { return NEXT(syncfs)(fd); });
}
SHOWN int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
    return drained(fd, [&] { return NEXT(sync_file_range)(fd, offset, bytes, flags); });
}
SHOWN void sync(void) __THROW {
    if (is_rank()) {
        const Guard guard;
        drain_all();
    }
    NEXT(sync)();
}
SHOWN int fallocate(int fd, int mode, off_t offset, off_t bytes) {
    return drained(fd, [&] { return NEXT(fallocate)(fd, mode, offset, bytes); });
}
SAME(int, fallocate64, fallocate, (int, int, off64_t, off64_t), )
// The only one that returns its error.
SHOWN int posix_fallocate(int fd, off_t offset, off_t bytes) {
    const int error = errno;
    int result = drained(fd, [&] { return NEXT(posix_fallocate)(fd, offset, bytes); });
    if (result < 0) result = errno;
    errno = error;
    return result;
}
SAME(int, posix_fallocate64, posix_fallocate, (int, off64_t, off64_t), )
// Times are those of the last write, unless they are set after it.
SHOWN int futimens(int fd, const timespec times[2]) __THROW {
    return drained(fd, [&] { return NEXT(futimens)(fd, times); });
}
SHOWN int fchmod(int fd, mode_t mode) __THROW {
    return drained(fd, [&] { return NEXT(fchmod)(fd, mode); });
}
SHOWN int fchown(int fd, uid_t user, gid_t group) __THROW {
    return drained(fd, [&] { return NEXT(fchown)(fd, user, group); });
}
SHOWN int fsetxattr(int fd, const char* name, const void* value, size_t bytes, int flags) __THROW {
    return drained(fd, [&] { return NEXT(fsetxattr)(fd, name, value, bytes, flags); });
}

SHOWN int ioctl(int fd, unsigned long request, ...) __THROW {
    va_list arguments;
    va_start(arguments, request);
    void* const argument = va_arg(arguments, void*);
    va_end(arguments);
    return drained(fd, [&] { return NEXT(ioctl)(fd, request, argument); });
}

// --- what is left to the program from then on

static __thread unsigned mappings_heard __attribute__((tls_model("initial-exec")));
SHOWN void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) __THROW {
    ++mappings_heard;
    if (fd >= 0 && (flags & MAP_ANONYMOUS) == 0 && !lets_go(fd, Reason::kMapped)) return MAP_FAILED;
    return NEXT(mmap)(at, bytes, protection, flags, fd, offset);
}
// Network libraries (UCX) overwrite the beginning of the process's mmap, to know what is mapped, and call the
// system by themselves. A file that cannot be read cannot be mapped.
bool longshore::io::sees_mappings() {
    auto* function = &mmap;
    asm("" : "+r"(function));  // as the program calls it
    const unsigned before = mappings_heard;
    void* const page = function(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) munmap(page, 1);
    return mappings_heard != before;
}
SAME(void*, mmap64, mmap, (void*, size_t, int, int, int, off64_t), __THROW)
// A lock that is not waited for keeps others out, who see by themselves what is written (settle). One that is
// waited for says that somebody else writes, too.
SHOWN int flock(int fd, int operation) __THROW {
    if (concerns(fd) && (operation & (LOCK_NB | LOCK_UN)) != 0) {
        const Guard guard;
        Answer answer;
        File* const file = begin(fd, &answer);
        if (answer.is_given) return -1;
        const int result = NEXT(flock)(fd, operation);
        if (result == 0 && file != nullptr) file->is_locked = (operation & LOCK_UN) == 0;
        return result;
    }
    return lets_go(fd, Reason::kLocked) ? NEXT(flock)(fd, operation) : -1;
}
SHOWN int lockf(int fd, int operation, off_t bytes) {
    return lets_go(fd, Reason::kLocked) ? NEXT(lockf)(fd, operation, bytes) : -1;
}
SAME(int, lockf64, lockf, (int, int, off64_t), )
SHOWN ssize_t sendfile(int out, int in, off_t* offset, size_t bytes) __THROW {
    if (!lets_go(out, Reason::kOther) || !lets_go(in, Reason::kOther)) return -1;
    return NEXT(sendfile)(out, in, offset, bytes);
}
SAME(ssize_t, sendfile64, sendfile, (int, int, off64_t*, size_t), __THROW)
SHOWN ssize_t copy_file_range(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes,
                              unsigned flags) {
    if (!lets_go(out, Reason::kOther) || !lets_go(in, Reason::kOther)) return -1;
    return NEXT(copy_file_range)(in, in_offset, out, out_offset, bytes, flags);
}
SHOWN ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t bytes, unsigned flags) {
    if (!lets_go(out, Reason::kOther) || !lets_go(in, Reason::kOther)) return -1;
    return NEXT(splice)(in, in_offset, out, out_offset, bytes, flags);
}
// It may hand on descriptors.
SHOWN ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    if (is_on.load(std::memory_order_relaxed) != 0 && message != nullptr && message->msg_controllen != 0) {
        auto* const whole = const_cast<msghdr*>(message);
        for (cmsghdr* part = CMSG_FIRSTHDR(whole); part != nullptr; part = CMSG_NXTHDR(whole, part)) {
            if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
            const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; ++i) {
                int one = -1;
                memcpy(&one, CMSG_DATA(part) + i * sizeof one, sizeof one);
                if (!lets_go(one, Reason::kOther)) return -1;
            }
        }
    }
    return NEXT(sendmsg)(fd, message, flags);
}
SHOWN int aio_write(aiocb* request) __THROW {
    return lets_go(request->aio_fildes, Reason::kOther) ? NEXT(aio_write)(request) : -1;
}
SAME(int, aio_write64, aio_write, (struct aiocb64*), __THROW)
SHOWN int aio_read(aiocb* request) __THROW {
    return lets_go(request->aio_fildes, Reason::kOther) ? NEXT(aio_read)(request) : -1;
}
SAME(int, aio_read64, aio_read, (struct aiocb64*), __THROW)
SHOWN int lio_listio(int mode, aiocb* const list[], int count, sigevent* event) __THROW {
    for (int i = 0; i < count; ++i) {
        if (list[i] != nullptr && !lets_go(list[i]->aio_fildes, Reason::kOther)) return -1;
    }
    return NEXT(lio_listio)(mode, list, count, event);
}
SAME(int, lio_listio64, lio_listio, (int, struct aiocb64* const[], int, sigevent*), __THROW)
// The C library writes to it by ways of its own.
SHOWN int vdprintf(int fd, const char* format, va_list arguments) {
    return lets_go(fd, Reason::kStdio) ? NEXT(vdprintf)(fd, format, arguments) : -1;
}
SHOWN int dprintf(int fd, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int result = vdprintf(fd, format, arguments);
    va_end(arguments);
    return result;
}
extern "C" int __vdprintf_chk(int, int, const char*, va_list);
SHOWN int __vdprintf_chk(int fd, int flag, const char* format, va_list arguments) {
    return lets_go(fd, Reason::kStdio) ? NEXT(__vdprintf_chk)(fd, flag, format, arguments) : -1;
}
extern "C" int __dprintf_chk(int, int, const char*, ...);
SHOWN int __dprintf_chk(int fd, int flag, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int result = __vdprintf_chk(fd, flag, format, arguments);
    va_end(arguments);
    return result;
}
