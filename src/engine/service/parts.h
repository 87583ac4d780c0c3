// The parts of a service process's engine, and how they are put together. A part keeps its state to itself;
// what it asks of others stands at the head of its header. This is the place where what one part finds is
// handed to the next, and where the order of things to do is decided.
#pragma once

#include "engine/service/arrivals.h"
#include "engine/service/balance.h"
#include "engine/service/reads.h"
#include "engine/service/relay_intake.h"
#include "engine/service/relay_offers.h"
#include "engine/service/teller.h"

namespace longshore {

struct ServiceEngine::Parts final : public Follower {
    explicit Parts(const ServiceContext& given);
    void carve(Carver& c);

    // Everything that there is to do, in its order; false: nothing.
    bool next(Action* out, WakeSet* wake);
    void look_again(WakeSet* wake);
    bool next_turn(Action* out, uint32_t events, WakeSet* wake);
    bool serve(uint32_t operation, Action* out, uint32_t events, WakeSet* wake);
    bool next_read(uint32_t operation, Action* out, WakeSet* wake);
    void post_read(const TakenChunk& taken, Action* out);
    bool help(Action* out, uint32_t events, WakeSet* wake);
    void charge(uint32_t operation, uint64_t bytes);
    void send_acknowledgements(Acknowledger::Until until);

    void on_message(const Message& m, const FrameHeader& header, WakeSet* wake);
    void finish_move(uint32_t move, MoveResult result, WakeSet* wake);
    // A peer has started anew and knows nothing.
    void resync(ServiceAddress with);
    // What an operation expects of a lost peer ends in an error: its blocks will not come, and it will not
    // read ours.
    void lose(uint32_t watch, ServiceAddress lost, WakeSet* wake);
    void watch_began(uint32_t watch, WakeSet* wake) override;
    bool idle() const;

    ServiceContext context;
    Groups groups{context};
    Peers peers{context};
    Outbox outbox{context, peers};
    Turns turns;
    Operations operations{context, turns};
    Watches watches{context, operations};
    Teller teller{context, groups, peers, outbox, operations, watches};
    SmallBlocks small{context};
    Acknowledger acknowledger{context, peers, outbox};
    Rows rows{context, operations, watches, small, acknowledger};
    NodeCopies copies{context, operations, watches};
    ReadQueue queue{context, peers, operations, watches, rows, small, acknowledger, copies};
    SharedRows shared{context, groups, peers, outbox, operations, watches, rows, small, queue};
    Arrivals arrivals{context, groups, peers, operations, watches, rows, small, acknowledger, queue, shared};
    Reads reads{context};
    Staging staging{context, watches, queue};
    RelayIntake intake{context, peers, outbox, watches, queue, staging};
    RelayOffers offers{context, groups, peers, outbox, watches, rows, queue, staging};
    Balance balance{context, groups, peers, outbox, turns, operations, watches, queue};
    uint32_t scan_events = 0;  // the doorbell's count at the last scan for new records
    bool helping = false;      // taking turns for others' ranks
    uint32_t copies_out = 0;   // copies that the driver has and has not finished
};

}  // namespace longshore
