// One end of the mover by TCP: serves the region of this process to all others, by a thread of its own, as a
// card would.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

namespace longshore::dpu_bench::tcp {

// Who connects says first whom it means: addresses of private networks exist on many machines.
using Token = std::array<std::uint8_t, 16>;

enum class Kind : std::uint32_t { kRead = 1, kWrite };

// Little-endian, as both ends are (static_assert in tcp_server.cc). The bytes of a write follow it.
struct Request {
    Kind kind = Kind::kRead;
    std::uint32_t unused = 0;
    std::uint64_t offset = 0, bytes = 0;
};
static_assert(sizeof(Request) == 24);

// The bytes of a read follow it; that of a write says that they are in the region.
enum class Reply : std::uint64_t { kDone = 1, kOutside };

class Server {
  public:
    // Listens at `address` (of the host, 0: all), any port. Throws std::runtime_error.
    Server(std::uint32_t address, const Token& token);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    std::uint16_t port() const { return port_; }
    // Nobody asks for bytes of a region while it changes.
    void expose(char* base, std::size_t bytes);

  private:
    // A connection takes one request after the other.
    struct Client {
        enum class State { kToken, kRequest, kTaking, kReply, kGiving };
        State state = State::kToken;
        Token token{};
        Request request{};
        Reply reply = Reply::kDone;
        std::size_t done = 0;  // bytes of what the state is about
    };

    void serve();
    void accept_one(int epoll);
    // False: the connection is to be closed. Goes on as far as it goes without waiting.
    bool go_on(int socket, Client* client);
    bool begin_request(Client* client);
    // What the state is about: where it lies, how long it is, and whether it comes in.
    struct Piece {
        char* at;
        std::size_t bytes;
        bool comes_in;
    };
    Piece piece_of(Client* client);
    static Client::State after(const Client& client);

    Token token_;
    std::uint16_t port_ = 0;
    int listener_ = -1, stop_ = -1;
    std::mutex region_lock_;
    char* base_ = nullptr;
    std::size_t bytes_ = 0;
    std::map<int, Client> clients_;  // by socket
    std::thread thread_;
};

}  // namespace longshore::dpu_bench::tcp
