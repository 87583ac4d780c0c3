// One TCP connection, plain or as TLS 1.3 whose pre-shared key is a token of the job. Nonblocking; owns its
// socket. The process must ignore SIGPIPE: OpenSSL writes as a plain write() does. One thread.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "fabric/probe_times.h"
#include "fabric/shm/socket.h"
#include "fabric/tcp/answers.h"

namespace longshore {

// What all TLS streams of a service process share. The token decides who may talk: there are no certificates.
class TlsContext {
  public:
    // Null: OpenSSL refuses; `error` says why.
    static std::unique_ptr<TlsContext> create(std::string* error);
    ~TlsContext();
    struct Inside;
    Inside& inside() { return *inside_; }

  private:
    TlsContext();
    std::unique_ptr<Inside> inside_;
};

class Stream {
  public:
    Stream();
    // Plain.
    explicit Stream(Fd socket);
    // TLS. `key` is borrowed by OpenSSL until the stream is closed, so it must be the job's own copy.
    Stream(Fd socket, TlsContext& tls, bool connects, const Token& key);
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;
    ~Stream();

    int fd() const { return socket_.get(); }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    void close();
    // For who goes on without this; not of TLS.
    Fd take_socket() { return std::move(socket_); }

    // Sends what there is room for, in order. kOk: *sent bytes, at least one. After kAgain the next call
    // begins with the same bytes.
    Io send(std::span<const iovec> parts, size_t* sent);
    // kOk: *received bytes, at least one, in the order of `parts`.
    Io receive(std::span<const iovec> parts, size_t* received);
    // After kClosed: the error of the system; 0: the other end has closed.
    int error() const { return error_; }
    // Its other end's machine has not answered for so long: it is over, with ETIMEDOUT.
    bool is_unanswered(uint64_t silence_ns);
    // The kernel says that there is something to receive when so many bytes have come.
    void wake_at(int bytes);

  private:
    struct Tls;
    Fd socket_;
    std::unique_ptr<Tls> tls_;
    Answers answers_;
    int wakes_at_ = 1;
    int error_ = 0;
};

// What every stream between service processes has set: no delays for small messages; and where nothing is
// sent the kernel asks whether the other machine is there.
void set_up_stream(int fd, const ProbeTimes& times);
// What one for tasks has besides: whose other machine has not answered for so long it ends by itself, as its
// process sleeps until something comes.
void set_up_for_tasks(int fd, const ProbeTimes& times);
// What a stream of data has besides: buffers of the kernel that keep a link busy while a service process
// waits for its core (0: the kernel's own choice). Nobody is asked by it: the stream of talk to the same peer
// does that.
void set_up_for_data(int fd, int buffer_bytes);
// 0 when connect() has succeeded.
int connect_error(int fd);

}  // namespace longshore
