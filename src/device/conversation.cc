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
#include <optional>
#include <vector>

#include "device/clock.h"
#include "device/machine.h"
#include "device/ucx.h"

namespace longshore::device {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr int kSilentMs = 30'000;

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

namespace {

bool carry_out(Connection& connection, const Request& request, std::vector<char>& out,
               std::vector<char>& in) {
    const uint64_t bytes = request.bytes;
    uint64_t word = request.count;
    switch (request.pattern) {
        case Pattern::kEcho:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.receive(in.data(), bytes) || !connection.send(in.data(), bytes)) return false;
            }
            return true;
        case Pattern::kEchoPolled:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.receive_polling(in.data(), bytes) || !connection.send(in.data(), bytes))
                    return false;
            }
            return true;
        case Pattern::kToFar:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.receive(in.data(), bytes)) return false;
            }
            return connection.send(&word, sizeof word);
        case Pattern::kFromFar:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.send(out.data(), bytes)) return false;
            }
            return connection.receive(&word, sizeof word);
        default:
            return connection.exchange(bytes * request.count, bytes, out.data(), in.data());
    }
}

}  // namespace

std::string serve(Connection& connection) {
    std::vector<char> out, in;
    for (Request request; connection.receive(&request, sizeof request);) {
        // Where both ends are on one machine and look all the time, each needs a core of its own.
        std::optional<OnOwnCore> core;
        if (request.pattern == Pattern::kEchoPolled || request.pattern == Pattern::kUcx)
            core.emplace(OnOwnCore::Which::kLast);
        Answer answer;
        answer.reply = judge(request);
        std::optional<Ucx> ucx;
        if (answer.reply == Reply::kYes && request.pattern == Pattern::kUcx &&
            !ucx.emplace().open().empty()) {
            answer.reply = Reply::kNoUcx;
            if (!connection.send(&answer, sizeof answer)) return "the near end has gone";
            continue;
        }
        if (!connection.send(&answer, sizeof answer)) return "the near end has gone";
        if (answer.reply == Reply::kVersion)
            return "what has connected is not this version of longshore-device";
        if (answer.reply != Reply::kYes) return "it was asked for what it does not do";
        if (request.pattern == Pattern::kEnd) return "";
        if (ucx.has_value()) {
            if (!ucx->serve(connection, request.bytes))
                return "the near end has gone, or was silent for 30 s";
            continue;
        }
        out.resize(std::max<size_t>(out.size(), request.bytes));
        in.resize(out.size());
        if (!carry_out(connection, request, out, in)) return "the near end has gone, or was silent for 30 s";
    }
    return "the near end has gone, or was silent for 30 s";
}

}  // namespace longshore::device
