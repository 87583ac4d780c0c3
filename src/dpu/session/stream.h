// Frames over a socket: what is sent waits here until the socket takes it, what arrives until a frame is
// whole. Nothing blocks. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dpu/session/session.h"
#include "fabric/shm/system.h"

namespace longshore {

constexpr size_t kSessionHeaderBytes = 8;  // length of the body, kind, zero
// Of a hello: one that ends here asks only whether a rank could come.
constexpr size_t kSessionQuestionBytes = 6;
constexpr size_t kHelloBytesMax = 16 * 1024;  // of a frame from whom nothing is known yet
constexpr size_t kSessionBytesMax = size_t{1} << 30;

class SessionStream {
  public:
    SessionStream() = default;
    // The socket is made nonblocking; a peer whose machine is gone is noticed after about `limit_s`.
    explicit SessionStream(Fd socket, uint32_t limit_s);
    bool open() const { return static_cast<bool>(socket_); }
    int fd() const { return socket_.get(); }
    // For this process; end(): for all who hold it, a forked child for one.
    void close() { socket_.reset(); }
    void end();
    // The socket, with nothing read or waiting; for who hands it on.
    Fd take_socket() { return std::move(socket_); }

    // Queues a frame, and sends what the socket takes.
    void send(SessionKind kind, std::span<const std::byte> body);
    template <class Message>
    void send(SessionKind kind, const Message& message) {
        send(kind, std::span<const std::byte>(encode(message)));
    }
    // What is queued; false: some of it still waits.
    bool flush();
    bool flushed() const { return sent_ == out_.size(); }
    size_t unsent_bytes() const { return out_.size() - sent_; }

    // The next frame, of at most `bytes_max`; its body is borrowed until the next call. False: there is none
    // yet, or the connection is over (open() tells).
    bool receive(SessionKind* kind, std::span<const std::byte>* body, size_t bytes_max = kSessionBytesMax);

  private:
    Fd socket_;
    std::vector<std::byte> out_, in_;
    size_t sent_ = 0, begin_ = 0, end_ = 0;  // of out_ sent; of in_ what is not taken yet
};

// Connects without blocking: an empty result and a reason, or a socket on which connect_result() tells when
// it is there. `address`: HOST[:PORT], HOST a name or an address ([...] around one of IPv6).
Fd start_connecting(const char* address, const char** reason);
// 1: connected, 0: not yet, negative: an errno.
int connect_result(const Fd& socket);

}  // namespace longshore
