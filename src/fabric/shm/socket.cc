#include "fabric/shm/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace longshore {
namespace {

constexpr size_t kDescriptorsMax = 64;
constexpr int kBacklog = 1024;
constexpr char kNamePrefix[] = "longshore-";

socklen_t fill_address(const SocketName& name, sockaddr_un* address) {
    *address = {};
    address->sun_family = AF_UNIX;
    const size_t length = strnlen(name.text, sizeof name.text - 1);
    memcpy(address->sun_path + 1, name.text, length);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

Fd make_socket() {
    return Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_pending(int error) {
    // ETOOMANYREFS: of the descriptors that this user has sent too many have not been received yet.
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS ||
           error == ETOOMANYREFS;
}

}  // namespace

std::string own_program() {
    if (const char* runs_it = getenv("LONGSHORE_INTERNAL_PROGRAM"); runs_it != nullptr && *runs_it != 0)
        return runs_it;
    char path[4096] = {};
    return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "/proc/self/exe";
}

Fd make_memory_file(const char* name, uint64_t bytes) {
    Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
        fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return Fd();
    return fd;
}

bool is_memory_file(int fd, uint64_t expected_bytes, uint64_t* bytes) {
    struct stat status;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &status) != 0 || status.st_size <= 0)
        return false;
    const auto size = static_cast<uint64_t>(status.st_size);
    if (expected_bytes != 0 && size != expected_bytes) return false;
    if (bytes != nullptr) *bytes = size;
    return true;
}

bool make_secret(SocketName* name, Token* token) {
    NameBytes bytes;
    if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return false;
    if (getrandom(token->data(), token->size(), 0) != static_cast<ssize_t>(token->size())) return false;
    *name = unpack_name(bytes);
    return true;
}

SocketName unpack_name(const NameBytes& bytes) {
    SocketName name;
    char* at = name.text + snprintf(name.text, sizeof name.text, "%s", kNamePrefix);
    for (const uint8_t byte : bytes) at += snprintf(at, 3, "%02x", byte);
    return name;
}

bool pack_name(const SocketName& name, NameBytes* bytes) {
    constexpr size_t kPrefixBytes = sizeof kNamePrefix - 1;
    if (strncmp(name.text, kNamePrefix, kPrefixBytes) != 0) return false;
    for (size_t i = 0; i < bytes->size(); ++i) {
        unsigned byte = 0;
        if (sscanf(name.text + kPrefixBytes + 2 * i, "%2x", &byte) != 1) return false;
        (*bytes)[i] = static_cast<uint8_t>(byte);
    }
    return strncmp(unpack_name(*bytes).text, name.text, sizeof name.text) == 0;
}

SocketName service_socket_name(const SocketName& name, uint16_t service) {
    SocketName out;
    snprintf(out.text, sizeof out.text, "%.40s.%u", name.text, service);
    return out;
}

bool same_token(const Token& a, const Token& b) {
    unsigned difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
    return difference == 0;
}

Fd listen_at(const SocketName& name) {
    Fd fd = make_socket();
    sockaddr_un address;
    const socklen_t length = fill_address(name, &address);
    if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(fd.get(), kBacklog) != 0)
        return Fd();
    return fd;
}

Fd connect_to(const SocketName& name) {
    Fd fd = make_socket();
    sockaddr_un address;
    const socklen_t length = fill_address(name, &address);
    if (!fd || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
        const int error = errno;
        fd.reset();
        errno = error;
    }
    return fd;
}

Fd accept_from(const Fd& listener) {
    return Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool peer_is_same_user(const Fd& socket, pid_t* pid) {
    ucred peer{};
    socklen_t length = sizeof peer;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
    if (pid != nullptr) *pid = peer.pid;
    return peer.uid == geteuid();
}

Io send_packet(const Fd& socket, const void* bytes, size_t count, std::span<const int> descriptors) {
    iovec part{const_cast<void*>(bytes), count};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
    if (descriptors.size() > kDescriptorsMax) return Io::kClosed;
    if (!descriptors.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t sent = sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(count)) return Io::kOk;
    return sent < 0 && is_pending(errno) ? Io::kAgain : Io::kClosed;
}

Io receive_packet(const Fd& socket, void* buffer, size_t capacity, size_t* count,
                  std::vector<Fd>* descriptors) {
    iovec part{buffer, capacity};
    msghdr message{};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // The other end has closed with something unread. The system tells of that first, and has what was said
    // before it.
    if (got < 0 && errno == ECONNRESET)
        got = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return is_pending(errno) ? Io::kAgain : Io::kClosed;
    std::vector<Fd> taken;  // closed again unless the caller wants them
    for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        const size_t many = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < many; ++i) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
            taken.emplace_back(fd);
        }
    }
    if (got == 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        const bool no_room = (message.msg_flags & MSG_CTRUNC) != 0 && taken.size() < kDescriptorsMax;
        if (no_room) *count = static_cast<size_t>(got);
        errno = got == 0 ? 0 : no_room ? EMFILE : EMSGSIZE;
        return Io::kClosed;
    }
    *count = static_cast<size_t>(got);
    if (descriptors != nullptr) *descriptors = std::move(taken);
    return Io::kOk;
}

}  // namespace longshore
