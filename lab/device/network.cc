#include "device/network.h"

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "device/clock.h"
#include "device/conversation.h"
#include "device/far_end.h"
#include "device/figure.h"
#include "device/ucx.h"

namespace longshore::device {
namespace {

constexpr uint64_t kLatencySizes[] = {1, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20};
constexpr uint64_t kBandwidthSizes[] = {1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr uint64_t kSmallMessage = 8;

struct Addresses {
    addrinfo* first = nullptr;
    ~Addresses() {
        if (first != nullptr) freeaddrinfo(first);
    }
};

std::string resolve(const NetworkAddress& address, bool to_listen, Addresses* found) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = to_listen ? AI_PASSIVE : 0;
    const int code = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                 address.port.empty() ? "0" : address.port.c_str(), &hints, &found->first);
    return code == 0 ? "" : address.host + ":" + address.port + ": " + gai_strerror(code);
}

class NearEnd {
  public:
    NearEnd(Connection& connection, const Effort& effort, const Report& report)
        : connection_(connection),
          effort_(effort),
          report_(report),
          out_(kMessageBytesMax, 1),
          in_(kMessageBytesMax) {}

    std::string measure(const Wanted& wanted, const Tell& remark, const Tell& left_out) {
        if (wanted.tcp) measure_tcp();
        if (wanted.ucx && problem_.empty()) measure_by_ucx(remark, left_out);
        if (problem_.empty()) ask({Request::kMagic, Request::kVersion, Pattern::kEnd, 0, 0});
        return problem_;
    }

  private:
    void measure_tcp() {
        for (const uint64_t bytes : kLatencySizes) add("network latency", kTimeOneWay, Pattern::kEcho, bytes);
        for (const uint64_t bytes : kLatencySizes)
            add("network polling", kTimeOneWay, Pattern::kEchoPolled, bytes);
        for (const uint64_t bytes : kBandwidthSizes) {
            add("network to", kRate, Pattern::kToFar, bytes);
            add("network from", kRate, Pattern::kFromFar, bytes);
            add("network both", kRateBothWays, Pattern::kBoth, bytes);
        }
        add("network messages", kPerSecond, Pattern::kToFar, kSmallMessage);
    }

    void measure_by_ucx(const Tell& remark, const Tell& left_out) {
        Ucx ucx;
        if (const std::string why = ucx.open(); !why.empty()) return left_out("ucx: " + why);
        const OnOwnCore core(OnOwnCore::Which::kFirst);
        if (!ask({Request::kMagic, Request::kVersion, Pattern::kUcx, kMessageBytesMax, 1})) {
            if (!far_has_ucx_) left_out("ucx: the far end has none");
            return;
        }
        remark(ucx.name());
        problem_ = ucx.measure(connection_, effort_, report_);
    }

    bool ask(const Request& request) {
        Answer answer;
        if (!connection_.send(&request, sizeof request) || !connection_.receive(&answer, sizeof answer)) {
            problem_ = "the far end has gone, or was silent for 30 s";
        } else if (answer.magic != Request::kMagic || answer.reply == Reply::kVersion) {
            problem_ = "what answers there is not this version of longshore-device";
        } else if (answer.reply == Reply::kNoUcx) {
            far_has_ucx_ = false;
            return false;
        } else if (answer.reply != Reply::kYes) {
            problem_ = "the far end does not do what it was asked for";
        }
        return problem_.empty();
    }

    // Seconds of so many messages. Negative: it went wrong.
    double carry_out(Pattern pattern, uint64_t bytes, uint64_t count) {
        std::optional<OnOwnCore> core;
        if (pattern == Pattern::kEchoPolled) core.emplace(OnOwnCore::Which::kFirst);
        if (!ask({Request::kMagic, Request::kVersion, pattern, bytes, count})) return -1;
        const uint64_t begin = now_ns();
        bool alive = true;
        uint64_t word = 0;
        switch (pattern) {
            case Pattern::kEcho:
                for (uint64_t i = 0; alive && i < count; ++i)
                    alive = connection_.send(out_.data(), bytes) && connection_.receive(in_.data(), bytes);
                break;
            case Pattern::kEchoPolled:
                for (uint64_t i = 0; alive && i < count; ++i)
                    alive = connection_.send(out_.data(), bytes) &&
                            connection_.receive_polling(in_.data(), bytes);
                break;
            case Pattern::kToFar:
                for (uint64_t i = 0; alive && i < count; ++i) alive = connection_.send(out_.data(), bytes);
                alive = alive && connection_.receive(&word, sizeof word) && word == count;
                break;
            case Pattern::kFromFar:
                for (uint64_t i = 0; alive && i < count; ++i) alive = connection_.receive(in_.data(), bytes);
                alive = alive && connection_.send(&word, sizeof word);
                break;
            default:
                alive = connection_.exchange(bytes * count, bytes, out_.data(), in_.data());
        }
        if (!alive) problem_ = "the far end has gone, or was silent for 30 s";
        return alive ? static_cast<double>(now_ns() - begin) / 1e9 : -1;
    }

    // As many in a sample as a short trial says, which is not counted.
    void add(const char* test, const Figure& figure, Pattern pattern, uint64_t bytes) {
        if (!problem_.empty()) return;
        const bool is_echo = pattern == Pattern::kEcho || pattern == Pattern::kEchoPolled;
        uint64_t count = is_echo ? 10 : std::clamp<uint64_t>((1 << 20) / bytes, 2, 1000);
        double seconds = carry_out(pattern, bytes, count);
        if (seconds < 0) return;
        count = std::clamp<uint64_t>(effort_.messages_of_a_sample(count, seconds), 4,
                                     std::min<uint64_t>(kMessagesMax, (1ull << 30) / bytes + 4));
        Row row{test, figure.unit, bytes, 1, {}};
        for (int i = 0; i < effort_.network_repeats; ++i) {
            if ((seconds = carry_out(pattern, bytes, count)) < 0) return;
            row.samples.push_back(figure.of(seconds / static_cast<double>(count), bytes));
        }
        report_(std::move(row));
    }

    Connection& connection_;
    const Effort& effort_;
    const Report& report_;
    std::vector<char> out_, in_;
    std::string problem_;
    bool far_has_ucx_ = true;
};

}  // namespace

bool read_address(const std::string& text, NetworkAddress* address) {
    const size_t colon = text.rfind(':');
    if (colon == text.npos || colon + 1 == text.size()) return false;
    address->host = text.substr(0, colon);
    address->port = text.substr(colon + 1);
    if (address->host.starts_with('[') && address->host.ends_with(']'))
        address->host = address->host.substr(1, address->host.size() - 2);
    return std::all_of(address->port.begin(), address->port.end(),
                       [](char c) { return c >= '0' && c <= '9'; });
}

std::string measure_network(const NetworkAddress& far, const Wanted& wanted, const Effort& effort,
                            const Report& report, const Tell& remark, const Tell& left_out) {
    Addresses found;
    if (std::string wrong = resolve(far, false, &found); !wrong.empty()) return wrong;
    int error = 0;
    for (const addrinfo* at = found.first; at != nullptr; at = at->ai_next) {
        const int socket = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (socket >= 0 && connect(socket, at->ai_addr, at->ai_addrlen) == 0) {
            Connection connection(socket);
            return NearEnd(connection, effort, report).measure(wanted, remark, left_out);
        }
        error = errno;
        if (socket >= 0) close(socket);
    }
    return far.host + ":" + far.port + " cannot be reached: " + strerror(error) +
           " ('longshore device --listen' must run there)";
}

std::string listen_for_one(const NetworkAddress& here) {
    Addresses found;
    if (std::string wrong = resolve(here, true, &found); !wrong.empty()) return wrong;
    const addrinfo* const at = found.first;
    const int listener = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    const int on = 1;
    if (listener >= 0) setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener < 0 || bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, 1) != 0) {
        const std::string why = strerror(errno);
        if (listener >= 0) close(listener);
        return "cannot listen at " + here.host + ":" + here.port + ": " + why;
    }
    sockaddr_storage bound{};
    socklen_t bytes = sizeof bound;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &bytes);
    getnameinfo(reinterpret_cast<sockaddr*>(&bound), bytes, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    printf("longshore-device: listening at %s port %s, for one near end ('longshore device --to HOST:%s')\n",
           host, port, port);
    fflush(stdout);
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const int error = errno;
    close(listener);
    if (socket < 0) return std::string("nobody could connect: ") + strerror(error);
    Connection connection(socket);
    return serve(connection);
}

}  // namespace longshore::device
