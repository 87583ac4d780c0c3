// TCP streams until both ends have proven that they are of the job: those that others open, and those that
// are opened from here. Nothing but the handshake is read before that. Strangers are few at a time, and each
// has little of it. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/shm/shm_fabric.h"
#include "fabric/tcp/addresses.h"
#include "fabric/tcp/proof.h"
#include "fabric/tcp/stream.h"

namespace longshore {

class Door {
  public:
    static constexpr size_t kStrangersMax = 64;

    // Whom a stream leads to, once that is proven.
    struct Met {
        Hello hello;               // as the end that connected sent it
        bool connected = false;    // from here
        uint32_t incarnation = 0;  // of the other end
    };
    // Why nothing has come of an attempt: the error of the system, or what was refused at the other end.
    struct Failure {
        int error = 0;
        const char* refused = nullptr;  // a text that stays
    };
    // Whose door it is.
    class Owner {
      public:
        virtual ~Owner() = default;
        // Somebody of the job has connected. False: there is no use for the stream, and it is closed.
        virtual bool admit(const Met& met) = 0;
        // Both ends may speak on it now.
        virtual void take_in(const Met& met, Stream stream) = 0;
        // What open() began has come to nothing.
        virtual void on_failed(ServiceAddress peer, StreamKind kind, const Failure& why) = 0;
        // There is no descriptor left for a stream. Whoever has connected will do so again.
        virtual void on_full() = 0;
        // Somebody who is not of the job, or does not keep to the handshake.
        virtual void refuse(const char* what) = 0;
    };
    struct Options {
        ServiceAddress self;
        uint32_t incarnation = 1;
        const std::vector<NodeAddress>* nodes = nullptr;  // borrowed
        uint64_t limit_ns = 5'000'000'000;                // of a handshake
        ProbeTimes probes;                                // of the streams
        bool tls = false;
        int buffer_bytes = 0;  // of the kernel, for each direction of a stream of data; 0: its own choice
    };

    // `streams`: on which others' connections come, as PortShare has it. Null: `error` says why. `epoll` and
    // `owner` are borrowed; an event's data is the number of what it is about, which is kEventBit and more.
    static constexpr uint64_t kEventBit = uint64_t{1} << 63;
    static std::unique_ptr<Door> create(const Options& options, Fd streams, int epoll, Owner& owner,
                                        std::string* error);
    ~Door();

    void open(const Hello& hello, const TcpAddress& address, uint16_t port);
    // Nothing comes of what open() has begun for that peer.
    void give_up(ServiceAddress peer);
    // Whether something that open() began for that peer has reached the other machine.
    bool has_reached(ServiceAddress peer) const;
    void on_event(uint64_t number);
    // Ends what takes too long.
    void look(uint64_t now);
    bool busy() const { return !knocks_.empty(); }

  private:
    struct Knock;
    Door(const Options& options, Fd streams, int epoll, Owner& owner);
    void accept();
    void add(std::unique_ptr<Knock> knock);
    void set_up_for(StreamKind kind, int fd) const;
    bool advance(Knock& knock);
    bool fill(Knock& knock, size_t bytes, bool* whole);
    bool say(Knock& knock, std::span<const std::byte> bytes);
    bool take_hello(Knock& knock);
    bool take_challenge(Knock& knock);
    bool take_proof(Knock& knock);
    bool refuse(Knock& knock, const char* what);
    void end(size_t at, bool failed);

    const Options options_;
    Fd streams_;
    const int epoll_;
    Owner& owner_;
    std::unique_ptr<TlsContext> tls_;
    std::vector<std::unique_ptr<Knock>> knocks_;  // oldest first
    uint64_t numbers_ = 0;
};

}  // namespace longshore
