// What a TcpFabric knows about another service process: its connection, and what goes and comes by it, each with a
// state of its own.
#pragma once

#include "fabric/tcp/tcp_fabric.h"

namespace longshore {

struct TcpFabric::Peer {
    // kWelcomed: it has connected, and may have given up before it knew: until it is heard nothing is said to
    // it. kDown: its streams have ended; its successor may come within the limit.
    enum class State : uint8_t { kNone, kConnecting, kWelcomed, kConnected, kDown, kLost };

    Peer(ServiceAddress peer, uint32_t number, AheadWindow window, Reads& reads)
        : at(peer), index(number), sent_ahead(window), coming(window, reads), receiving(peer, reads, coming) {}
    Peer(const Peer&) = delete;

    State state = State::kNone;
    const ServiceAddress at;
    const uint32_t index;      // in TcpFabric::peers_
    bool marked = false;       // it is in TcpFabric::marked_
    bool watched = false;      // it is in TcpFabric::watched_
    uint32_t incarnation = 1;  // of the newest that has been met, or is in the book
    uint64_t connection = 0;   // names the stream of talk
    bool dialed = false;       // ... which was opened from here
    std::vector<TcpAddress> addresses;
    uint16_t port = 0;
    size_t next_address = 0;
    uint64_t since_ns = 0;      // in this state
    uint64_t wanted_ns = 0;     // since when it is to be connected
    uint64_t dial_at_ns = 0;    // when to try again; 0: an attempt is under way
    uint64_t dial_wait_ns = 0;  // between attempts
    int dial_error = 0;         // why the last attempt failed
    uint64_t life = 0;          // of its streams
    bool broken = false;        // to be closed at the end of the turn, because
    std::string why;            // ... it did what it may not; empty: because the streams have ended
    void set_broken(const char* because) {
        broken = true;
        if (why.empty()) why = because;
    }

    TalkStream talk;
    Stream data;
    bool data_readable = false, data_writable = false;
    Serving serving;
    SentAhead sent_ahead;
    ComingBlocks coming;
    Receiving receiving;
};

}  // namespace longshore
