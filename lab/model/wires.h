// The ways that bytes take on a machine: a host's memory and its DPU's hang on the same network card, all
// cards on one switch.
#pragma once

#include "model/machine.h"
#include "model/network.h"

namespace longshore::timed {

enum class Side : uint8_t { kHost, kDpu };

struct Place {
    uint32_t node = 0;
    Side side = Side::kHost;
};

class Wires {
  public:
    // `mirrored`: what one node does is what all do. Its links then stand for those of all nodes: where it
    // reads from another one, that one's links are as busy as its own, which a third one reads from.
    Wires(const Machine& machine, uint32_t nodes, EventQueue& queue, Sharing sharing, bool mirrored = false);

    // From one memory into another by the cards, `delay` from now; to->on_arrival(tag) when all is there.
    void send(Place from, Place to, uint64_t bytes, Time delay, Arrivals* to_whom, uint64_t tag);
    // The same, but asked for from the other end: the request comes first.
    void read(Place asked_by, Place from, Place to, uint64_t bytes, Time delay, Arrivals* to_whom,
              uint64_t tag);
    // A word that another process of the node sees: it takes time, but keeps nothing busy.
    void note(Time delay, Arrivals* to_whom, uint64_t tag);
    // One core of a host copies in the host's memory.
    void copy(uint32_t node, uint64_t bytes, Time delay, Arrivals* to_whom, uint64_t tag);

    // Bytes that came to all nodes over their links so far.
    uint64_t bytes_received() const;
    struct Busy {
        Time link = 0, pcie = 0, memory = 0;
    };
    // Of each kind the server that was busy longest.
    Busy busiest() const;
    uint64_t transfers() const { return network_->transfers(); }

  private:
    struct Servers {
        uint32_t pcie_out, pcie_in, up, down, memory, dpu_memory;
    };
    const Servers& servers(uint32_t node) const { return nodes_[mirrored_ ? 0 : node]; }
    const Machine& machine_;
    const uint32_t count_;
    const bool mirrored_;
    std::unique_ptr<Network> network_;
    std::vector<Servers> nodes_;
};

}  // namespace longshore::timed
