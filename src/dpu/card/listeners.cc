#include "dpu/card/listeners.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "dpu/card/ip_address.h"

namespace longshore {
namespace {

constexpr int kGateBacklog = 1024;

uint16_t* port_of(sockaddr_storage* address) {
    return address->ss_family == AF_INET6 ? &reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                          : &reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

sockaddr_storage bound_address(const Fd& listener) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return address;
}

// `both`: an IPv6 socket that takes IPv4, too.
Fd listen_on(sockaddr_storage address, socklen_t length, uint16_t port, bool both, int* error) {
    Fd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1, only_ipv6 = both ? 0 : 1;
    *port_of(&address) = htons(port);
    if (fd && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (address.ss_family != AF_INET6 ||
         setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) == 0) &&
        bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
        listen(fd.get(), kGateBacklog) == 0)
        return fd;
    *error = errno;
    return Fd();
}

// A machine may have no IPv6.
Fd listen_everywhere(uint16_t port, int* error) {
    sockaddr_storage any{};
    any.ss_family = AF_INET6;
    Fd fd = listen_on(any, sizeof(sockaddr_in6), port, true, error);
    if (fd || *error == EADDRINUSE || *error == EACCES) return fd;
    any = {};
    any.ss_family = AF_INET;
    return listen_on(any, sizeof(sockaddr_in), port, false, error);
}

}  // namespace

std::vector<Fd> listen_on(const std::string& address, uint16_t* port, std::string* error) {
    std::vector<Fd> listeners;
    int failure = EADDRNOTAVAIL;
    const auto add = [&](Fd fd) {
        sockaddr_storage bound = bound_address(fd);
        *port = ntohs(*port_of(&bound));
        listeners.push_back(std::move(fd));
    };
    const std::string where = address == "*" ? "" : address + ": ";
    if (address == "*") {
        if (Fd fd = listen_everywhere(*port, &failure)) add(std::move(fd));
    } else {
        addrinfo wanted{}, *list = nullptr;
        wanted.ai_socktype = SOCK_STREAM;
        wanted.ai_flags = AI_PASSIVE;
        if (const int code = getaddrinfo(address.c_str(), nullptr, &wanted, &list); code != 0) {
            *error = where + gai_strerror(code);
            return {};
        }
        const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
        std::vector<IpAddress> seen;  // a name may be there twice
        for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
            if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
            sockaddr_storage at{};
            memcpy(&at, one->ai_addr, one->ai_addrlen);
            if (std::find(seen.begin(), seen.end(), ip_address(at)) != seen.end()) continue;
            seen.push_back(ip_address(at));
            if (Fd fd = listen_on(at, one->ai_addrlen, *port, false, &failure)) {
                add(std::move(fd));
            } else if (failure == EADDRINUSE || failure == EACCES) {
                listeners.clear();  // half a service is none
                break;
            }
        }
    }
    if (listeners.empty()) *error = where + "port " + std::to_string(*port) + ": " + strerror(failure);
    return listeners;
}

std::string show_listener(const Fd& listener) {
    sockaddr_storage bound = bound_address(listener);
    const std::string port = std::to_string(ntohs(*port_of(&bound)));
    const std::string address = show(ip_address(bound));
    return (bound.ss_family == AF_INET6 ? "[" + address + "]:" : address + ":") + port;
}

}  // namespace longshore
