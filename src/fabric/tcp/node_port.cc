#include "fabric/tcp/node_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "fabric/descriptors.h"
#include "fabric/tcp/wire.h"

namespace longshore {
namespace {

constexpr int kPortBacklog = 1024, kAcceptsPerTurn = 256;

// Where there is no IPv6, at IPv4's addresses alone.
Fd listen_at_port(uint16_t port) {
    for (const int family : {AF_INET6, AF_INET}) {
        sockaddr_storage any{};
        socklen_t bytes;
        if (family == AF_INET6) {
            auto& to = reinterpret_cast<sockaddr_in6&>(any);
            to.sin6_port = htons(port);
            bytes = sizeof to;
        } else {
            auto& to = reinterpret_cast<sockaddr_in&>(any);
            to.sin_port = htons(port);
            bytes = sizeof to;
        }
        any.ss_family = static_cast<sa_family_t>(family);
        Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!fd) continue;
        const int no = 0;
        if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        if (bind(fd.get(), reinterpret_cast<sockaddr*>(&any), bytes) == 0 &&
            listen(fd.get(), kPortBacklog) == 0)
            return fd;
    }
    return Fd();
}

bool watch(const Fd& epoll, const Fd& socket, uint32_t events) {
    epoll_event event{};
    event.events = events;
    return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0;
}

}  // namespace

std::unique_ptr<NodePort> NodePort::open(uint16_t first, uint16_t last, uint16_t services,
                                         std::string* error) {
    Fd epoll(epoll_create1(EPOLL_CLOEXEC));
    int failure = errno;
    for (uint32_t at = first; epoll && at <= last; ++at) {
        Fd listener = listen_at_port(static_cast<uint16_t>(at));
        sockaddr_in6 own{};  // the port stands at the same place for both families
        socklen_t bytes = sizeof own;
        if (listener && getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &bytes) == 0 &&
            watch(epoll, listener, EPOLLIN))
            return std::unique_ptr<NodePort>(
                new NodePort(std::move(epoll), std::move(listener), ntohs(own.sin6_port), services));
        failure = errno;
    }
    *error = std::string("no port to listen at") +
             (first != 0 ? " of those that LONGSHORE_NETWORK_PORTS allows" : "") + ": " + strerror(failure);
    return nullptr;
}

PortShare NodePort::share(ServiceId service) {
    int ends[2];
    PortShare share;
    if (is_closed() || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return share;
    services_[service.value] = Fd(ends[0]);
    share.streams = Fd(ends[1]);
    share.port = port_;
    watch(epoll_, services_[service.value], EPOLLIN);
    return share;
}

void PortShare::close() {
    constexpr char kNotNeeded = 0;
    if (streams) send_packet(streams, &kNotNeeded, sizeof kNotNeeded);
    streams.reset();
}

std::string NodePort::take_problem() {
    return std::exchange(problem_, {});
}

bool NodePort::refuse() {
    ++refused_;
    if (!std::exchange(told_, true))
        problem_ = "refused a stream that is none of ours, or of another version";
    return false;
}

void NodePort::turn() {
    for (Fd& service : services_) {
        char word;
        size_t bytes = 0;
        const Io io = service ? receive_packet(service, &word, sizeof word, &bytes, nullptr) : Io::kAgain;
        // Who goes without a word may come again.
        if (io == Io::kClosed || (io == Io::kOk && stays_)) service.reset();
        if (io != Io::kOk || stays_) continue;
        listener_.reset();
        strangers_.clear();
    }
    if (is_closed()) return;
    accept();
    std::erase_if(strangers_, [this](Stranger& stranger) { return !advance(stranger); });
}

// Who has connected and cannot be taken would end every wait at once. As long as there is no descriptor for
// it, it is looked at each kTurnNs.
void NodePort::set_full(bool full) {
    if (full && !std::exchange(told_full_, true))
        problem_ = no_descriptor_left("the supervisor of the service processes");
    if (full == full_) return;
    full_ = full;
    epoll_event event{};
    if (!full) event.events = EPOLLIN;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

void NodePort::accept() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
        Stranger stranger;
        stranger.socket = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!stranger.socket) return set_full(errno == EMFILE || errno == ENFILE);
        stranger.since_ns = awake_ns();
        // Most have said it by now.
        if (!advance(stranger)) continue;
        // The oldest makes room: who floods the port keeps nobody out for longer than that takes.
        if (strangers_.size() >= kStrangersMax) {
            strangers_.erase(strangers_.begin());
            refuse();
        }
        watch(epoll_, stranger.socket, EPOLLIN | EPOLLRDHUP | EPOLLET);
        strangers_.push_back(std::move(stranger));
    }
}

// False: there is nothing more to do for it.
bool NodePort::advance(Stranger& stranger) {
    static_assert(sizeof stranger.said == kPrefaceBytes);
    if (stranger.bytes < kPrefaceBytes) {
        const ssize_t got = recv(stranger.socket.get(), stranger.said + stranger.bytes,
                                 kPrefaceBytes - stranger.bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) stranger.bytes += static_cast<size_t>(got);
    }
    const bool late = awake_ns() - stranger.since_ns >= kLimitNs;
    if (stranger.bytes < kPrefaceBytes) return late ? refuse() : true;
    ServiceId service;
    if (!decode_preface(stranger.said, &service) || service.value >= services_.size()) return refuse();
    const Fd& to = services_[service.value];
    if (!to) return false;  // it will be called again
    // It goes as it is, so it must be waited for no longer here.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stranger.socket.get(), nullptr);
    const int give = stranger.socket.get();
    constexpr char kStream = 1;
    // Too many are on their way: this one a little later.
    return send_packet(to, &kStream, sizeof kStream, {&give, 1}) == Io::kAgain && !late;
}

}  // namespace longshore
