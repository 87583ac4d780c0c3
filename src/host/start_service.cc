#include "host/start_service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fabric/shm/detached.h"

namespace longshore {
namespace {

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

}  // namespace

bool ServiceStarter::start_with(const char* path, const char* role, std::span<const std::byte> parameters,
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
    std::vector<char*> environment = network_settings();
    static_assert(kParameterFd == kFirstDetachedFd && kReadyFd == kFirstDetachedFd + 1);
    const int descriptors[] = {theirs.get(), ready_end.get()};
    if (const int problem = start_detached(path, role, environment.data(), descriptors); problem != 0) {
        *error += strerror(problem);
        return false;
    }
    // It loads its program, from a network file system perhaps, and waits for others that do
    // (Supervisor::hear_workers).
    deadline_ns_ = awake_ns() + limit_s * 6'000'000'000ull;
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
    return awake_ns() < deadline_ns_ ? State::kPending : fail("longshored did not answer in time");
}

}  // namespace longshore
