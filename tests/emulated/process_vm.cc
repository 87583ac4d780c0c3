// process_vm_readv and _writev by way of /proc/PID/mem, for tests under QEMU's user emulation, which does not
// know those calls. The emulator gives a process the addresses that it asks for (guest base 0), so that they
// are the same from outside.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>

namespace {

ssize_t transfer(pid_t pid, const iovec* local, const iovec* remote, bool write) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    const int file = open(path, (write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (file < 0) {
        errno = errno == ENOENT ? ESRCH : EPERM;
        return -1;
    }
    const auto at = static_cast<off_t>(reinterpret_cast<uintptr_t>(remote->iov_base));
    const ssize_t moved = write ? pwrite(file, local->iov_base, remote->iov_len, at)
                                : pread(file, local->iov_base, remote->iov_len, at);
    close(file);
    if (moved <= 0) errno = EFAULT;
    return moved <= 0 ? -1 : moved;
}

}  // namespace

// As this project calls them: one span at each end, of equal length.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long, const iovec* remote,
                                    unsigned long, unsigned long) noexcept {
    return transfer(pid, local, remote, false);
}
extern "C" ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long, const iovec* remote,
                                     unsigned long, unsigned long) noexcept {
    return transfer(pid, local, remote, true);
}
