// What goes and comes between this service process and another one, each with a state of its own. How it is
// connected Connections knows.
#pragma once

#include "fabric/tcp/tcp_fabric.h"

namespace longshore {

struct TcpFabric::Peer {
    Peer(ServiceAddress peer, uint32_t of_peer, AheadWindow window, TcpReads& reads)
        : at(peer),
          number(of_peer),
          sent_ahead(window),
          coming(window, reads),
          receiving(peer, reads, coming) {}
    Peer(const Peer&) = delete;

    const ServiceAddress at;
    const uint32_t number;  // Connections has
    bool marked = false;    // it is in TcpFabric::marked_
    bool ages = false;      // it is in TcpFabric::ageing_
    bool broken = false;    // to be closed at the end of the turn, because
    std::string why;        // ... it did what it may not; empty: because the streams have ended
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
