#include "dpu_bench/tcp_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace longshore::dpu_bench::tcp {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr int kEventsAtOnce = 64, kBacklog = 512;

void watch(int epoll, int socket, std::uint32_t events, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.fd = socket;
    epoll_ctl(epoll, operation, socket, &event);
}

}  // namespace

Server::Server(std::uint32_t address, const Token& token) : token_(token) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(address);
    socklen_t length = sizeof here;
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    stop_ = eventfd(0, EFD_CLOEXEC);
    if (listener_ < 0 || stop_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&here), sizeof here) != 0 ||
        listen(listener_, kBacklog) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &length) != 0) {
        const std::string why = std::strerror(errno);
        if (listener_ >= 0) close(listener_);
        if (stop_ >= 0) close(stop_);
        throw std::runtime_error("tcp: cannot listen: " + why);
    }
    port_ = ntohs(here.sin_port);
    thread_ = std::thread([this] { serve(); });
}

Server::~Server() {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof one) == sizeof one) thread_.join();
    for (const auto& [socket, client] : clients_) close(socket);
    close(listener_);
    close(stop_);
}

void Server::expose(char* base, std::size_t bytes) {
    const std::lock_guard lock(region_lock_);
    base_ = base;
    bytes_ = bytes;
}

void Server::serve() {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, stop_, EPOLLIN, EPOLL_CTL_ADD);
    watch(epoll, listener_, EPOLLIN, EPOLL_CTL_ADD);
    epoll_event events[kEventsAtOnce];
    for (bool goes_on = true; goes_on;) {
        const int count = epoll_wait(epoll, events, kEventsAtOnce, -1);
        for (int i = 0; i < count; ++i) {
            const int socket = events[i].data.fd;
            if (socket == stop_) {
                goes_on = false;
            } else if (socket == listener_) {
                accept_one(epoll);
            } else {
                Client& client = clients_[socket];
                if (go_on(socket, &client)) {
                    watch(epoll, socket, piece_of(&client).comes_in ? EPOLLIN : EPOLLOUT, EPOLL_CTL_MOD);
                } else {
                    close(socket);
                    clients_.erase(socket);
                }
            }
        }
    }
    close(epoll);
}

void Server::accept_one(int epoll) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    clients_[socket] = Client{};
    watch(epoll, socket, EPOLLIN, EPOLL_CTL_ADD);
}

Server::Piece Server::piece_of(Client* client) {
    switch (client->state) {
        case Client::State::kToken:
            return {reinterpret_cast<char*>(client->token.data()), client->token.size(), true};
        case Client::State::kRequest:
            return {reinterpret_cast<char*>(&client->request), sizeof client->request, true};
        case Client::State::kReply:
            return {reinterpret_cast<char*>(&client->reply), sizeof client->reply, false};
        case Client::State::kTaking:
        case Client::State::kGiving:
            break;
    }
    const std::lock_guard lock(region_lock_);
    return {base_ + client->request.offset, client->request.bytes, client->state == Client::State::kTaking};
}

// Called when the piece of the state is there, or has been sent.
Server::Client::State Server::after(const Client& client) {
    using State = Client::State;
    switch (client.state) {
        case State::kToken:
        case State::kGiving:
            return State::kRequest;
        case State::kRequest:
            return client.request.kind == Kind::kWrite ? State::kTaking : State::kReply;
        case State::kTaking:
            return State::kReply;
        case State::kReply:
            break;
    }
    return client.request.kind == Kind::kRead && client.reply == Reply::kDone ? State::kGiving
                                                                              : State::kRequest;
}

// False: it asks for what there is not.
bool Server::begin_request(Client* client) {
    const Request& request = client->request;
    if (request.kind != Kind::kRead && request.kind != Kind::kWrite) return false;
    const std::lock_guard lock(region_lock_);
    const bool inside = request.offset <= bytes_ && request.bytes <= bytes_ - request.offset;
    client->reply = inside ? Reply::kDone : Reply::kOutside;
    // The bytes of a write that is refused are on their way, and have no place: the connection ends.
    return inside || request.kind == Kind::kRead;
}

bool Server::go_on(int socket, Client* client) {
    for (;;) {
        const Piece piece = piece_of(client);
        while (client->done < piece.bytes) {
            const ssize_t moved =
                piece.comes_in
                    ? recv(socket, piece.at + client->done, piece.bytes - client->done, 0)
                    : send(socket, piece.at + client->done, piece.bytes - client->done, MSG_NOSIGNAL);
            if (moved < 0 && errno == EINTR) continue;
            if (moved < 0 && errno == EAGAIN) return true;
            if (moved <= 0) return false;
            client->done += std::size_t(moved);
        }
        if (client->state == Client::State::kToken && client->token != token_) return false;
        if (client->state == Client::State::kRequest && !begin_request(client)) return false;
        client->done = 0;
        client->state = after(*client);
    }
}

}  // namespace longshore::dpu_bench::tcp
