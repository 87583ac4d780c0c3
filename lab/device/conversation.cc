#include "device/conversation.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "device/clock.h"

namespace longshore::device {
namespace {

static_assert(std::endian::native == std::endian::little);

}  // namespace

Reply judge(const Request& request) {
    if (request.magic != Request::kMagic || request.version != Request::kVersion) return Reply::kVersion;
    switch (request.pattern) {
        case Pattern::kEnd:
            return Reply::kYes;
        case Pattern::kEcho:
        case Pattern::kEchoPolled:
        case Pattern::kToFar:
        case Pattern::kFromFar:
        case Pattern::kBoth:
        case Pattern::kUcx:
            break;
        default:
            return Reply::kUnknown;
    }
    const bool small = request.bytes != 0 && request.bytes <= kMessageBytesMax && request.count != 0 &&
                       request.count <= kMessagesMax && request.count <= kPatternBytesMax / request.bytes;
    return small ? Reply::kYes : Reply::kTooLarge;
}

Connection::Connection(int socket) : socket_(socket) {
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval limit{kSilentMs / 1000, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Connection::~Connection() {
    close(socket_);
}

bool Connection::send(const void* bytes, uint64_t count) {
    const char* at = static_cast<const char*>(bytes);
    while (count != 0) {
        const ssize_t sent = ::send(socket_, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        count -= static_cast<uint64_t>(sent);
    }
    return true;
}

bool Connection::receive(void* bytes, uint64_t count) {
    char* at = static_cast<char*>(bytes);
    while (count != 0) {
        const ssize_t got = recv(socket_, at, count, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        count -= static_cast<uint64_t>(got);
    }
    return true;
}

bool Connection::receive_polling(void* bytes, uint64_t count) {
    char* at = static_cast<char*>(bytes);
    constexpr int kLooks = 1000;  // then, where both ends have one core, the other one has to run
    int looks = 0;
    const uint64_t silent_until = now_ns() + uint64_t{kSilentMs} * 1'000'000;
    while (count != 0) {
        const ssize_t got = recv(socket_, at, count, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got < 0 && now_ns() > silent_until) return false;
        if (got < 0 && ++looks % kLooks == 0) sched_yield();
        if (got <= 0) continue;
        at += got;
        count -= static_cast<uint64_t>(got);
    }
    return true;
}

Look Connection::look(void* bytes, uint64_t count) {
    const ssize_t got = recv(socket_, bytes, count, MSG_DONTWAIT | MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Look::kNothing;
    if (got <= 0) return Look::kGone;
    return receive(bytes, count) ? Look::kCame : Look::kGone;  // what has begun to come comes soon
}

bool Connection::exchange(uint64_t bytes, uint64_t piece, const char* out, char* in) {
    uint64_t to_send = bytes, to_get = bytes;
    while (to_send != 0 || to_get != 0) {
        pollfd ready{socket_, static_cast<short>((to_send != 0 ? POLLOUT : 0) | (to_get != 0 ? POLLIN : 0)),
                     0};
        if (poll(&ready, 1, kSilentMs) <= 0) return false;
        if (to_get != 0 && (ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            const ssize_t got = recv(socket_, in, std::min(piece, to_get), MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
            if (got > 0) to_get -= static_cast<uint64_t>(got);
        }
        if (to_send != 0 && (ready.revents & POLLOUT) != 0) {
            const ssize_t sent = ::send(socket_, out, std::min(piece, to_send), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
            if (sent > 0) to_send -= static_cast<uint64_t>(sent);
        }
    }
    return true;
}

}  // namespace longshore::device
