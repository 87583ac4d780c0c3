#include "fabric/tcp/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <climits>

namespace longshore {
namespace {

constexpr unsigned char kCipher[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr unsigned char kIdentity[] = "longshore";
constexpr size_t kIdentityBytes = sizeof kIdentity - 1;

// The session that a pre-shared key stands for. The caller owns it. Null: OpenSSL has no memory.
SSL_SESSION* session_of(SSL* ssl) {
    const auto* key = static_cast<const Token*>(SSL_get_app_data(ssl));
    const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipher);
    SSL_SESSION* const session = SSL_SESSION_new();
    if (session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, key->data(), key->size()) &&
        SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return nullptr;
}

int use_session(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_bytes, SSL_SESSION** session) {
    *id = kIdentity;
    *id_bytes = kIdentityBytes;
    *session = session_of(ssl);
    return *session != nullptr;
}

int find_session(SSL* ssl, const unsigned char* id, size_t id_bytes, SSL_SESSION** session) {
    *session = nullptr;
    if (id_bytes == kIdentityBytes && memcmp(id, kIdentity, id_bytes) == 0) *session = session_of(ssl);
    return 1;
}

}  // namespace

struct TlsContext::Inside {
    SSL_CTX* context = nullptr;
    ~Inside() { SSL_CTX_free(context); }
};

TlsContext::TlsContext() : inside_(std::make_unique<Inside>()) {}
TlsContext::~TlsContext() = default;

std::unique_ptr<TlsContext> TlsContext::create(std::string* error) {
    std::unique_ptr<TlsContext> made(new TlsContext);
    SSL_CTX* const context = made->inside_->context = SSL_CTX_new(TLS_method());
    if (context == nullptr || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256")) {
        char text[160];
        ERR_error_string_n(ERR_get_error(), text, sizeof text);
        *error = std::string("TLS cannot be used: ") + text;
        return nullptr;
    }
    SSL_CTX_set_psk_use_session_callback(context, use_session);
    SSL_CTX_set_psk_find_session_callback(context, find_session);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, 128 * 1024);
    return made;
}

struct Stream::Tls {
    SSL* ssl = nullptr;
    ~Tls() { SSL_free(ssl); }
    // Of a call that returned `result`.
    Io outcome(int result, int* error) const {
        const int system = errno;
        const int kind = SSL_get_error(ssl, result);
        ERR_clear_error();
        if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return Io::kAgain;
        *error = kind == SSL_ERROR_SYSCALL ? system : kind == SSL_ERROR_ZERO_RETURN ? 0 : EPROTO;
        return Io::kClosed;
    }
};

Stream::Stream(Fd socket, TlsContext& tls, bool connects, const Token& key)
    : socket_(std::move(socket)), tls_(std::make_unique<Tls>()) {
    tls_->ssl = SSL_new(tls.inside().context);
    if (tls_->ssl == nullptr || !SSL_set_fd(tls_->ssl, socket_.get())) {
        socket_.reset();
        return;
    }
    SSL_set_app_data(tls_->ssl, const_cast<Token*>(&key));
    connects ? SSL_set_connect_state(tls_->ssl) : SSL_set_accept_state(tls_->ssl);
}

Stream::Stream() = default;
Stream::Stream(Fd socket) : socket_(std::move(socket)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

bool Stream::is_unanswered(uint64_t silence_ns) {
    if (!socket_ || !answers_.are_missing(fd(), silence_ns)) return false;
    error_ = ETIMEDOUT;
    return true;
}

void Stream::close() {
    tls_.reset();
    socket_.reset();
    wakes_at_ = 1;
}

Io Stream::send(std::span<const iovec> parts, size_t* sent) {
    if (tls_) {
        for (const iovec& part : parts) {
            if (part.iov_len == 0) continue;
            ERR_clear_error();
            const int result = SSL_write(tls_->ssl, part.iov_base,
                                         static_cast<int>(std::min<size_t>(part.iov_len, INT_MAX)));
            *sent = result > 0 ? static_cast<size_t>(result) : 0;
            return result > 0 ? Io::kOk : tls_->outcome(result, &error_);
        }
        return Io::kAgain;
    }
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    for (;;) {
        const ssize_t bytes = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (bytes > 0) {
            *sent = static_cast<size_t>(bytes);
            return Io::kOk;
        }
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes == 0 || errno == EAGAIN || errno == EWOULDBLOCK) return Io::kAgain;
        error_ = errno;
        return Io::kClosed;
    }
}

Io Stream::receive(std::span<const iovec> parts, size_t* received) {
    if (tls_) {
        for (const iovec& part : parts) {
            if (part.iov_len == 0) continue;
            ERR_clear_error();
            const int result =
                SSL_read(tls_->ssl, part.iov_base, static_cast<int>(std::min<size_t>(part.iov_len, INT_MAX)));
            *received = result > 0 ? static_cast<size_t>(result) : 0;
            return result > 0 ? Io::kOk : tls_->outcome(result, &error_);
        }
        return Io::kAgain;
    }
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    for (;;) {
        const ssize_t bytes = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
        if (bytes > 0) {
            *received = static_cast<size_t>(bytes);
            return Io::kOk;
        }
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Io::kAgain;
        error_ = bytes == 0 ? 0 : errno;
        return Io::kClosed;
    }
}

// Under TLS records are longer than what is in them: every byte wakes.
void Stream::wake_at(int bytes) {
    if (tls_ || bytes == wakes_at_) return;
    wakes_at_ = bytes;
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

namespace {
void set(int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);
}
int in_units(uint64_t ns, uint64_t unit_ns, uint64_t most) {
    return static_cast<int>(std::clamp<uint64_t>(ns / unit_ns, 1, most));
}
}  // namespace

void set_up_stream(int fd, const ProbeTimes& times) {
    constexpr uint64_t kSecond = 1'000'000'000, kMostSeconds = 32767;
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, in_units(times.idle_ns, kSecond, kMostSeconds));
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, in_units(times.step_ns, kSecond, kMostSeconds));
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 100);  // who looks for answers ends it
}

void set_up_for_tasks(int fd, const ProbeTimes& times) {
    constexpr uint64_t kMillisecond = 1'000'000;
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, in_units(times.silence_ns, kMillisecond, INT_MAX));
}

void set_up_for_data(int fd, int buffer_bytes) {
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
    if (buffer_bytes == 0) return;
    // Where less is allowed than the kernel would grow to by itself, it is left to do that.
    int most = 0;
    socklen_t bytes = sizeof most;
    for (const int name : {SO_SNDBUF, SO_RCVBUF}) {
        const Fd trial(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        set(trial.get(), SOL_SOCKET, name, buffer_bytes);
        if (getsockopt(trial.get(), SOL_SOCKET, name, &most, &bytes) == 0 && most >= buffer_bytes)
            set(fd, SOL_SOCKET, name, buffer_bytes);
    }
}

int connect_error(int fd) {
    int error = 0;
    socklen_t bytes = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

}  // namespace longshore
