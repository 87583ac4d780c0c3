#include "dpu/session/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "base/dpu_map.h"
#include "base/little_endian.h"

namespace longshore {
namespace {
constexpr size_t kReadBytes = 64 * 1024;
}

SessionStream::SessionStream(Fd socket, uint32_t limit_s) : socket_(std::move(socket)) {
    const int fd = socket_.get();
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    // A machine that is gone says nothing: TCP asks it now and then, and gives up.
    const int on = 1, seconds = static_cast<int>(std::max(1u, limit_s / 3)), tries = 3;
    const auto limit_ms = limit_s * 1000u;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

void SessionStream::end() {
    if (socket_) shutdown(socket_.get(), SHUT_RDWR);
    close();
}

void SessionStream::send(SessionKind kind, std::span<const std::byte> body) {
    if (!socket_) return;
    std::byte header[kSessionHeaderBytes];
    Writer w(header, sizeof header);
    w.put(static_cast<uint32_t>(body.size()));
    w.put(static_cast<uint16_t>(kind));
    w.put(uint16_t{0});
    out_.insert(out_.end(), header, header + sizeof header);
    out_.insert(out_.end(), body.begin(), body.end());
    flush();
}

bool SessionStream::flush() {
    while (socket_ && sent_ < out_.size()) {
        const ssize_t took = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
        if (took > 0) {
            sent_ += static_cast<size_t>(took);
        } else if (errno == EAGAIN) {
            // A peer that reads, but never all of it, would have what was sent long ago kept for ever.
            if (sent_ >= kReadBytes && sent_ >= out_.size() / 2) {
                out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
                sent_ = 0;
            }
            return false;
        } else if (errno != EINTR) {
            // What has arrived may still be read: the peer's last words say why it went.
            break;
        }
    }
    out_.clear();
    sent_ = 0;
    return true;
}

bool SessionStream::receive(SessionKind* kind, std::span<const std::byte>* body, size_t bytes_max) {
    for (;;) {
        const size_t have = end_ - begin_;
        size_t want = kSessionHeaderBytes;
        if (have >= kSessionHeaderBytes) {
            Reader r({in_.data() + begin_, have});
            const auto bytes = r.get<uint32_t>();
            *kind = SessionKind{r.get<uint16_t>()};
            if (bytes > bytes_max || r.get<uint16_t>() != 0) {
                close();
                return false;
            }
            want += bytes;
            if (have >= want) {
                *body = {in_.data() + begin_ + kSessionHeaderBytes, bytes};
                begin_ += want;
                return true;
            }
        }
        if (!socket_) return false;
        if (begin_ != 0) {
            std::copy(in_.begin() + static_cast<ptrdiff_t>(begin_),
                      in_.begin() + static_cast<ptrdiff_t>(end_), in_.begin());
            end_ -= begin_;
            begin_ = 0;
        }
        // No more than is there is made room for, whatever a header says.
        in_.resize(std::max(in_.size(), end_ + kReadBytes));
        const ssize_t got = recv(socket_.get(), in_.data() + end_, in_.size() - end_, 0);
        if (got > 0) {
            end_ += static_cast<size_t>(got);
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close();
            return false;
        } else if (errno == EAGAIN) {
            return false;
        }
    }
}

Fd start_connecting(const char* address, const char** reason) {
    DpuAddress parts;
    if (!split_dpu_address(address, &parts)) {
        *reason = "not HOST[:PORT]";
        return {};
    }
    const std::string host(parts.host), port = std::to_string(parts.port != 0 ? parts.port : kSessionPort);
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (error == EAI_NONAME) {
        hints.ai_flags = AI_NUMERICSERV;
        error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    }
    if (error != 0) {
        *reason = gai_strerror(error);
        return {};
    }
    Fd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const bool begun =
        socket && (connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
    if (!begun) {
        *reason = strerror(errno);
        socket.reset();
    }
    freeaddrinfo(found);
    return socket;
}

int connect_result(const Fd& socket) {
    sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) == 0) return 1;
    int error = 0;
    bytes = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    return -error;
}

}  // namespace longshore
