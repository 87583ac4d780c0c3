// What is said about write-behind on the node's sockets: a rank opens a connection of its own to the
// supervisor, and the supervisor has one to the writer. Both ends are the same build on the same machine, so
// structs travel as they are; their receiver checks them.
#pragma once

#include "fabric/shm/control.h"
#include "io/layout.h"

namespace longshore::io {

// A rank wants its files written behind. With its stderr, if it has one.
struct OpenQueue {
    // The first words are those of every packet that the supervisor's listener gets.
    ControlHeader header{kControlMagic, ControlKind::kOpenQueue};
    Token token{};
    uint32_t local_rank = 0, has_stderr = 0;
    uint64_t ring_bytes = 0;  // the same for all ranks of a node
};

// The answer, with the board's file and the ring's.
struct QueueOpened {
    ControlHeader header{kControlMagic, ControlKind::kQueueOpened};
    uint32_t ok = 0;
    char text[kReasonBytes] = {};  // why not
};

// To the writer, first; with the board's file.
struct StartWriter {
    ControlHeader header{kControlMagic, ControlKind::kStartWriter};
    uint32_t queues = 0;
    uint64_t ring_bytes = 0;
};

// To the writer: a rank's ring comes along, after all files (HoldFile) that its records may name so far.
struct ServeQueue {
    ControlHeader header{kControlMagic, ControlKind::kServeQueue};
    uint32_t local_rank = 0;
};

// From the writer: it has written all of a file of that rank, and closed it.
struct FileWritten {
    ControlHeader header{kControlMagic, ControlKind::kFileWritten};
    uint32_t local_rank = 0;
    uint64_t number = 0;
};

}  // namespace longshore::io
