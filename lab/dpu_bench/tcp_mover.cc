// The mover by TCP, between any machines. Each process has a thread that serves its region (tcp_server.h);
// the others ask it for bytes, or give it some, over a connection that the first transfer makes.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <utility>

#include "dpu_bench/mover.h"
#include "dpu_bench/tcp_server.h"

namespace longshore::dpu_bench {
namespace {

using tcp::Kind;
using tcp::Reply;
using tcp::Request;

constexpr std::size_t kAddressesMax = 8;
constexpr int kSilentMs = 30'000;
constexpr int kConnectMs = 5'000;

// Where a process is found, as long for each of them.
struct TcpContact {
    tcp::Token token{};
    std::uint32_t addresses[kAddressesMax] = {};  // of IPv4, of the host's byte order; 0: no more
    std::uint32_t port = 0;
};

// Of this machine's interfaces that are up, or of the one named; the loopback last, as on other machines it
// is another one's.
std::vector<std::uint32_t> find_addresses(const std::string& interface) {
    std::vector<std::uint32_t> found, loopback;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) throw std::runtime_error(std::string("tcp: ") + std::strerror(errno));
    for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_UP) == 0)
            continue;
        if (!interface.empty() && interface != at->ifa_name) continue;
        const std::uint32_t address = ntohl(reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr.s_addr);
        ((at->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : found).push_back(address);
    }
    freeifaddrs(all);
    found.insert(found.end(), loopback.begin(), loopback.end());
    if (found.empty())
        throw std::runtime_error(interface.empty()
                                     ? "tcp: this machine has no address of IPv4"
                                     : "tcp: " + interface + " has no address of IPv4, or is not up");
    found.resize(std::min(found.size(), kAddressesMax));
    return found;
}

// A transfer that was started, and how far it has come.
struct Started {
    Request request;
    char* local;
    std::size_t sent = 0;  // of the request, and of the bytes of a write behind it
    Reply reply{};
    std::size_t taken = 0;  // of the reply, and of the bytes of a read behind it

    std::size_t to_send() const {
        return sizeof request + (request.kind == Kind::kWrite ? request.bytes : 0);
    }
    std::size_t to_take() const { return sizeof reply + (request.kind == Kind::kRead ? request.bytes : 0); }
};

// Of a piece that lies in two places, head and body, what begins `done` bytes into it.
std::pair<char*, std::size_t> rest_of(void* head, std::size_t head_bytes, char* body, std::size_t all,
                                      std::size_t done) {
    if (done < head_bytes) return {static_cast<char*>(head) + done, head_bytes - done};
    return {body + (done - head_bytes), all - done};
}

class TcpMover : public Mover {
  public:
    explicit TcpMover(std::string interface) : interface_(std::move(interface)) {}
    ~TcpMover() override {
        for (const Peer& peer : peers_)
            if (peer.socket >= 0) close(peer.socket);
    }

    const char* name() const override { return "tcp"; }
    std::string description() const override {
        return interface_.empty() ? name() : std::string(name()) + ", " + interface_;
    }
    bool one_machine_only() const override { return false; }

    std::vector<std::uint8_t> open(int rank, int) override {
        rank_ = rank;
        TcpContact contact;
        if (getrandom(contact.token.data(), contact.token.size(), 0) != ssize_t(contact.token.size()))
            throw std::runtime_error("tcp: no random numbers");
        const std::vector<std::uint32_t> addresses = find_addresses(interface_);
        std::copy(addresses.begin(), addresses.end(), contact.addresses);
        server_ = std::make_unique<tcp::Server>(interface_.empty() ? 0 : addresses[0], contact.token);
        contact.port = server_->port();
        std::vector<std::uint8_t> bytes(sizeof contact);
        std::memcpy(bytes.data(), &contact, sizeof contact);
        return bytes;
    }

    void join(std::span<const std::uint8_t> contacts) override {
        peers_.resize(contacts.size() / sizeof(TcpContact));
        for (std::size_t i = 0; i < peers_.size(); ++i)
            std::memcpy(&peers_[i].contact, contacts.data() + i * sizeof(TcpContact), sizeof(TcpContact));
    }

    RegionHandle expose(void* base, std::size_t bytes) override {
        base_ = static_cast<char*>(base);
        bytes_ = bytes;
        server_->expose(base_, bytes);
        return {};
    }
    void connect(std::span<const RegionHandle>) override {}

    void read(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) override {
        start(Kind::kRead, peer, remote_offset, local_offset, bytes);
    }
    void write(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) override {
        start(Kind::kWrite, peer, remote_offset, local_offset, bytes);
    }

    void wait_all() override {
        while (error_.empty() && std::any_of(peers_.begin(), peers_.end(), is_busy)) turn();
        if (error_.empty()) return;
        // What is half done cannot be taken up again.
        for (Peer& peer : peers_)
            if (is_busy(peer)) forget(&peer);
        throw std::runtime_error(std::exchange(error_, ""));
    }

  private:
    struct Peer {
        TcpContact contact;
        int socket = -1;
        std::deque<Started> started;
        std::size_t next_to_send = 0;  // in `started`
    };

    static bool is_busy(const Peer& peer) { return !peer.started.empty(); }

    static void forget(Peer* peer) {
        if (peer->socket >= 0) close(std::exchange(peer->socket, -1));
        peer->started.clear();
        peer->next_to_send = 0;
    }

    void start(Kind kind, int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) {
        if (!error_.empty()) return;
        if (local_offset > bytes_ || bytes > bytes_ - local_offset) {
            error_ = "a transfer leaves this process's region";
            return;
        }
        char* const local = base_ + local_offset;
        if (peer == rank_) {
            if (remote_offset > bytes_ || bytes > bytes_ - remote_offset)
                error_ = "a transfer leaves this process's region";
            else if (kind == Kind::kRead)
                std::memmove(local, base_ + remote_offset, bytes);
            else
                std::memmove(base_ + remote_offset, local, bytes);
            return;
        }
        Peer& to = peers_.at(std::size_t(peer));
        if (to.socket < 0 && (to.socket = reach(to.contact)) < 0) {
            error_ =
                "tcp: rank " + std::to_string(peer) + " cannot be reached; --device chooses the interface";
            return;
        }
        to.started.push_back({{kind, 0, remote_offset, bytes}, local});
        go_on(peer, &to);
    }

    // By the first of its addresses that answers. -1: none does.
    static int reach(const TcpContact& contact) {
        for (const std::uint32_t address : contact.addresses) {
            if (address == 0) break;
            sockaddr_in there{};
            there.sin_family = AF_INET;
            there.sin_addr.s_addr = htonl(address);
            there.sin_port = htons(std::uint16_t(contact.port));
            const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            if (socket < 0) return -1;
            const int on = 1;
            setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            pollfd ready{socket, POLLOUT, 0};
            int error = ::connect(socket, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0 ? 0 : errno;
            socklen_t length = sizeof error;
            if (error == EINPROGRESS && (poll(&ready, 1, kConnectMs) != 1 ||
                                         getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0))
                error = ETIMEDOUT;
            // A fresh connection has room for it.
            if (error == 0 && send(socket, contact.token.data(), contact.token.size(), MSG_NOSIGNAL) ==
                                  ssize_t(contact.token.size()))
                return socket;
            close(socket);
        }
        return -1;
    }

    // Waits until some peer can go on, and lets it.
    void turn() {
        std::vector<pollfd> ready;
        std::vector<int> whose;
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            if (!is_busy(peers_[i])) continue;
            const bool sends = peers_[i].next_to_send < peers_[i].started.size();
            ready.push_back({peers_[i].socket, short(POLLIN | (sends ? POLLOUT : 0)), 0});
            whose.push_back(int(i));
        }
        const int count = poll(ready.data(), nfds_t(ready.size()), kSilentMs);
        if (count < 0 && errno == EINTR) return;
        if (count <= 0) error_ = "tcp: no other process has moved anything for 30 s";
        for (std::size_t i = 0; i < ready.size() && error_.empty(); ++i)
            if (ready[i].revents != 0) go_on(whose[i], &peers_[std::size_t(whose[i])]);
    }

    // As far as it goes without waiting.
    void go_on(int number, Peer* peer) {
        if (!send_some(peer) || !take_some(number, peer))
            if (error_.empty())
                error_ = "tcp: rank " + std::to_string(number) + " has gone, or refuses the transfer";
    }

    static bool send_some(Peer* peer) {
        while (peer->next_to_send < peer->started.size()) {
            Started& one = peer->started[peer->next_to_send];
            const auto [at, bytes] =
                rest_of(&one.request, sizeof one.request, one.local, one.to_send(), one.sent);
            const ssize_t moved = send(peer->socket, at, bytes, MSG_NOSIGNAL);
            if (moved < 0 && errno == EINTR) continue;
            if (moved < 0) return errno == EAGAIN;
            one.sent += std::size_t(moved);
            if (one.sent == one.to_send()) ++peer->next_to_send;
        }
        return true;
    }

    // Answers come in the order of the requests.
    bool take_some(int number, Peer* peer) {
        while (!peer->started.empty()) {
            Started& one = peer->started.front();
            if (peer->next_to_send == 0) break;  // nothing has been asked for yet
            const auto [at, bytes] =
                rest_of(&one.reply, sizeof one.reply, one.local, one.to_take(), one.taken);
            const ssize_t moved = recv(peer->socket, at, bytes, 0);
            if (moved < 0 && errno == EINTR) continue;
            if (moved < 0) return errno == EAGAIN;
            if (moved == 0) return false;
            one.taken += std::size_t(moved);
            if (one.taken >= sizeof one.reply && one.reply != Reply::kDone) {
                error_ = "tcp: a transfer leaves the region of rank " + std::to_string(number);
                return false;
            }
            if (one.taken < one.to_take()) continue;
            peer->started.pop_front();
            --peer->next_to_send;
        }
        return true;
    }

    const std::string interface_;
    int rank_ = 0;
    std::unique_ptr<tcp::Server> server_;
    std::vector<Peer> peers_;  // by rank
    char* base_ = nullptr;
    std::size_t bytes_ = 0;
    std::string error_;  // of the first transfer that failed since the last wait
};

}  // namespace

std::unique_ptr<Mover> make_tcp_mover(const std::string& interface) {
    return std::make_unique<TcpMover>(interface);
}

}  // namespace longshore::dpu_bench
