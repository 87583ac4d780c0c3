#include "dpu/host_agent/dpu_stream.h"

#include <poll.h>
#include <string.h>

#include <algorithm>

#include "dpu/session/stream.h"

namespace longshore::tasks {
namespace {

constexpr size_t kWelcomeBytesMax = 4096;

bool wait_for_connection(const Fd& socket, uint64_t end_ns, std::string* error) {
    int connected = 0;
    while ((connected = connect_result(socket)) == 0 && awake_ns() < end_ns) {
        pollfd ready{socket.get(), POLLOUT, 0};
        poll(&ready, 1, awake_wait_ms(end_ns));
    }
    if (connected <= 0)
        *error = std::string("cannot be reached for tasks: ") +
                 (connected == 0 ? "it does not answer" : strerror(-connected));
    return connected > 0;
}

// The service's word that it takes these tasks.
bool hear_welcome(SessionStream& stream, uint64_t end_ns, std::string* error) {
    SessionKind kind{};
    std::span<const std::byte> body;
    while (!stream.receive(&kind, &body, kWelcomeBytesMax)) {
        if (!stream.open() || awake_ns() >= end_ns) {
            *error = stream.open() ? "did not answer a carrier of tasks in time"
                                   : "has closed the connection of a carrier of tasks";
            return false;
        }
        pollfd ready{stream.fd(), POLLIN, 0};
        poll(&ready, 1, awake_wait_ms(end_ns));
    }
    SessionWelcome welcome;
    if (kind != SessionKind::kWelcome || !decode(body, &welcome)) {
        *error = "does not keep to the protocol";
        return false;
    }
    if (!welcome.ok) *error = "takes no tasks of this job: " + welcome.reason;
    return welcome.ok;
}

}  // namespace

Fd connect_to_dpu(const FarNode& far, uint64_t limit_ns, std::string* error) {
    const uint64_t end_ns = awake_ns() + limit_ns;
    const char* reason = "";
    Fd socket = start_connecting(far.dpu, &reason);
    if (!socket) *error = std::string("cannot be reached for tasks: ") + reason;
    if (!socket || !wait_for_connection(socket, end_ns, error)) return {};
    SessionStream stream(std::move(socket), far.limit_s);
    SessionTasks hello;
    hello.job = far.job;
    std::copy(far.job_token.begin(), far.job_token.end(), hello.token.begin());
    hello.limit_s = far.limit_s;
    stream.send(SessionKind::kTasks, hello);
    return hear_welcome(stream, end_ns, error) ? stream.take_socket() : Fd();
}

}  // namespace longshore::tasks
