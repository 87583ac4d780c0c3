// How streams to other nodes' service processes come and go.
// Keeps: of each peer its addresses, in which state the connection to it is, and when to try again. Promises:
// the two streams to a peer are made when want() asks for them, or when the peer makes them, and are given to
// the owner; whom nobody can reach, or whose successor does not come, is lost after a while. Asks: its owner
// says when a peer has been heard and when its streams have ended, and closes them when on_closed() says so.
// Peers have numbers, by which both name them. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fabric/network.h"
#include "fabric/tcp/door.h"

namespace longshore {

class Connections : private Door::Owner {
  public:
    // kWelcomed: it has connected, and may have given up before it knew: until it is heard nothing is said to
    // it. kDown: its streams have ended; its successor may come within the limit.
    enum class State : uint8_t { kNone, kConnecting, kWelcomed, kConnected, kDown, kLost };

    class Owner {
      public:
        virtual ~Owner() = default;
        // The kernel tells of it from now on (find_event()).
        virtual void take_stream(uint32_t peer, StreamKind kind, Stream stream) = 0;
        // Both ends know now that they are connected. `speaks_first`: the other end waits for a word.
        virtual void on_connected(uint32_t peer, bool speaks_first) = 0;
        // What went and came by its streams is to be forgotten, as if there had been none.
        virtual void on_closed(uint32_t peer) = 0;
        // What its former self has said and nobody has heard is to be forgotten, too.
        virtual void on_successor(uint32_t peer) = 0;
        virtual void on_lost(uint32_t peer) = 0;
        // Its streams are to be closed at the end of the turn (close()); `why` may be null.
        virtual void on_failing(uint32_t peer, const char* why) = 0;
    };

    // `nodes` of the options are borrowed by the door, and so are `epoll` and `owner`. `book`: where the
    // network reaches each peer; `end`: this service process. Null on failure; `error` says why.
    static std::unique_ptr<Connections> create(const Door::Options& options, const ServiceBook& book,
                                               std::span<const TcpAddress> own, Fd streams, int epoll,
                                               Owner& owner, std::string* error);

    // --- Peers. All service processes of all nodes have a number; those of this node are no peers.
    static constexpr uint32_t kNobody = UINT32_MAX;
    uint32_t count() const { return static_cast<uint32_t>(connections_.size()); }
    uint32_t find(ServiceAddress peer) const;
    ServiceAddress address(uint32_t peer) const { return connections_[peer].at; }
    State state(uint32_t peer) const { return connections_[peer].state; }

    // --- Each turn begins with this; then events, and in the end look().
    void begin_turn(uint64_t now) { now_ = now; }
    // An event of `epoll`: of which stream; kNobody: it was about connecting, or of a former stream.
    struct Event {
        uint32_t peer = kNobody;
        StreamKind kind = StreamKind::kTalk;
    };
    Event find_event(uint64_t number);
    // What is to be done in time. Returns whether it did anything: not in every turn.
    bool look();
    // Whether some peer is to be dialed again soon.
    bool busy() const { return busy_; }

    // Connects to a peer to which that was never tried.
    void want(uint32_t peer) {
        if (connections_[peer].state == State::kNone) connect(connections_[peer]);
    }
    void on_heard(uint32_t peer);
    // Nothing comes from its streams any more. `why`: it did what it may not; else they have ended, with
    // `error`.
    void close(uint32_t peer, const std::string& why, int error);

    // Somebody who is not of the job, or does not keep to the protocol.
    void refuse(const char* what) override;
    uint64_t refused() const { return refused_; }
    std::string take_problem();

  private:
    struct Connection {
        ServiceAddress at;
        uint32_t number = 0;
        State state = State::kNone;
        bool watched = false;      // it is in Connections::watched_
        bool has_data = false;     // there is a stream of data
        bool dialed = false;       // the stream of talk was opened from here
        uint32_t incarnation = 1;  // of the newest that has been met, or is in the book
        uint64_t name = 0;         // of the stream of talk; that of data names it again
        std::vector<TcpAddress> addresses;
        uint16_t port = 0;
        size_t next_address = 0;
        uint64_t since_ns = 0;      // in this state
        uint64_t wanted_ns = 0;     // since when it is to be connected
        uint64_t dial_at_ns = 0;    // when to try again; 0: an attempt is under way
        uint64_t dial_wait_ns = 0;  // between attempts
        Door::Failure failure;      // why the last attempt failed
        uint64_t life = 0;          // of its streams; 0: there are none
    };
    Connections(const Door::Options& options, int epoll, Owner& owner);

    bool admit(const Door::Met& met) override;
    void take_in(const Door::Met& met, Stream stream) override;
    void on_failed(ServiceAddress peer, StreamKind kind, const Door::Failure& why) override;
    void on_full() override;

    std::string name_of(const Connection& c) const;
    static std::string why_unreached(const Connection& c);
    bool dials_first(const Connection& c) const;
    void connect(Connection& c);
    void dial(Connection& c, StreamKind kind);
    void take_data(Connection& c, const Door::Met& met, Stream stream);
    bool watch(const Connection& c, StreamKind kind, int fd) const;
    void hang_up(Connection& c);
    void lose(Connection& c);
    void watch_time(Connection& c);
    static bool has_time(const Connection& c);
    void look_at(Connection& c);

    const Door::Options options_;
    const int epoll_;
    Owner& owner_;
    std::unique_ptr<Door> door_;
    std::vector<Connection> connections_;           // by number: in the order of nodes and service processes
    std::vector<uint32_t> first_of_node_;           // and behind the last node
    std::vector<Connection*> watched_, looked_at_;  // to which something happens in time; those of this look
    uint64_t lives_ = 0;                            // events of former streams are told by it
    uint64_t now_ = 0, looked_ns_ = 0;
    bool busy_ = false;
    uint64_t refused_ = 0;
    std::string problem_;
    bool told_refused_ = false, told_full_ = false;
};

}  // namespace longshore
