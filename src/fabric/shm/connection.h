// The two ends of a connection between service processes, and what they say on its socket. See shm_fabric.h.
#pragma once

#include "fabric/shm/shm_fabric.h"

namespace longshore {

constexpr uint32_t kGreetingMagic = 0x4c534831;
constexpr size_t kMessageRingBytes = 128 * 1024;
constexpr size_t kMessageRingTotal = ring_total_bytes(kMessageRingBytes);

// Sender to receiver, with the ring's memfd.
struct Greeting {
    uint32_t magic = kGreetingMagic;
    uint32_t incarnation = 0;
    Token token{};
    uint16_t node = 0, service = 0, to_node = 0, to_service = 0;
};
// The answer, with the receiver's eventfd and its bell page.
struct Welcome {
    uint32_t magic = kGreetingMagic;
    uint32_t incarnation = 0;
};

// A page of a service process that says to its senders whether it sleeps.
struct BellPage {
    Atomic<uint32_t> sleeping;
};
constexpr size_t kBellBytes = 4096;

struct ShmFabric::Outgoing {
    enum class State : uint8_t { kNone, kConnecting, kReady, kLost };
    State state = State::kNone;
    bool probing = false;  // it was there once: find out whether it comes back
    Fd socket, doorbell;
    Mapping ring, bell;
    RingWriter writer;
    uint64_t down_since_ns = 0;  // 0: not known to be down
    uint64_t next_try_ns = 0;
    bool listed = false;  // in ShmFabric::trying_
};

struct ShmFabric::Incoming {
    Fd socket;
    uint32_t number = 0;  // its events have it
    bool greeted = false;
    bool closed = false;  // the sender is gone; what it said before is still read
    ServiceAddress from;
    uint64_t since_ns = 0;
    Mapping ring;
    RingReader reader;
};

}  // namespace longshore
