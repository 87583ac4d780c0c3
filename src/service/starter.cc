#include "service/starter.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

namespace longshore {

bool Starter::read_parameters(void* parameters, size_t bytes) {
    signal(SIGPIPE, SIG_IGN);
    size_t have = 0;
    while (have < bytes) {
        const ssize_t got = read(kParameterFd, static_cast<char*>(parameters) + have, bytes - have);
        if (got <= 0) return false;
        have += static_cast<size_t>(got);
    }
    ControlHeader header;
    memcpy(&header, parameters, sizeof header);
    if (header.magic != kControlMagic) return false;
    close(kParameterFd);
    const sched_param normal{};
    sched_setscheduler(0, SCHED_OTHER, &normal);
    // It must not live on in processes of our own: its end tells the starter that this one is gone.
    pipe_ = Fd(kReadyFd);
    fcntl(kReadyFd, F_SETFD, FD_CLOEXEC);
    return true;
}

bool Starter::tell(ServiceReady ready, std::span<const std::byte> address) {
    if (!ready.ok) address = {};
    ready.address_bytes = static_cast<uint32_t>(address.size());
    return write(pipe_.get(), &ready, sizeof ready) == sizeof ready &&
           write(pipe_.get(), address.data(), address.size()) == static_cast<ssize_t>(address.size());
}

}  // namespace longshore
