#include "model/wires.h"

#include <algorithm>

namespace longshore::timed {

Wires::Wires(const Machine& machine, uint32_t nodes, EventQueue& queue, Sharing sharing, bool mirrored)
    : machine_(machine), count_(nodes), mirrored_(mirrored), network_(make_network(queue, sharing)) {
    for (uint32_t n = 0; n < (mirrored ? 1 : nodes); ++n) {
        Servers s;
        s.pcie_out = network_->add_server(machine.pcie_rate, machine.pcie_latency);
        s.pcie_in = network_->add_server(machine.pcie_rate, machine.pcie_latency);
        s.up = network_->add_server(machine.link_rate, machine.link_latency + machine.switch_latency,
                                    machine.link_gap);
        s.down = network_->add_server(machine.link_rate, machine.link_latency, machine.link_gap);
        s.memory = network_->add_server(machine.memory_rate);
        s.dpu_memory = machine.has_dpu() ? network_->add_server(machine.dpu_memory_rate, machine.pcie_latency)
                                         : s.memory;
        nodes_.push_back(s);
    }
}

void Wires::send(Place from, Place to, uint64_t bytes, Time delay, Arrivals* to_whom, uint64_t tag) {
    std::array<uint32_t, Network::kHopsMax> way;
    size_t hops = 0;
    const Servers &source = servers(from.node), &target = servers(to.node);
    way[hops++] = from.side == Side::kHost ? source.pcie_out : source.dpu_memory;
    if (from.node != to.node) {
        way[hops++] = source.up;
        way[hops++] = target.down;
    }
    way[hops++] = to.side == Side::kHost ? target.pcie_in : target.dpu_memory;
    network_->send({{way.data(), hops}, bytes, delay, 0, to_whom, tag});
}

void Wires::read(Place asked_by, Place from, Place to, uint64_t bytes, Time delay, Arrivals* to_whom,
                 uint64_t tag) {
    // The request is some bytes long: it takes time, but keeps nothing busy.
    Time request = 2 * machine_.pcie_latency;
    if (asked_by.node != from.node) request += 2 * machine_.link_latency + machine_.switch_latency;
    send(from, to, bytes, delay + request, to_whom, tag);
}

void Wires::note(Time delay, Arrivals* to_whom, uint64_t tag) {
    network_->send({{}, 0, delay, 0, to_whom, tag});
}

void Wires::copy(uint32_t node, uint64_t bytes, Time delay, Arrivals* to_whom, uint64_t tag) {
    const uint32_t way[] = {servers(node).memory};
    network_->send({way, bytes, delay, machine_.memory_core_rate, to_whom, tag});
}

uint64_t Wires::bytes_received() const {
    uint64_t sum = 0;
    for (const Servers& node : nodes_) sum += network_->bytes(node.down);
    return mirrored_ ? sum * count_ : sum;
}

Wires::Busy Wires::busiest() const {
    Busy most;
    for (const Servers& node : nodes_) {
        most.link = std::max({most.link, network_->busy(node.up), network_->busy(node.down)});
        most.pcie = std::max({most.pcie, network_->busy(node.pcie_out), network_->busy(node.pcie_in)});
        most.memory = std::max(most.memory, network_->busy(node.memory));
    }
    return most;
}

}  // namespace longshore::timed
