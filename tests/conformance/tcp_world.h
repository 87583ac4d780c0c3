// The world of the fabric over TCP: that of the shared-memory fabric, with streams between its two nodes.
// What supervisors do for the nodes' ports a thread does here.
#pragma once

#include <mutex>
#include <thread>

#include "fabric/tcp/node_port.h"
#include "fabric/tcp/tcp_fabric.h"
#include "shm_world.h"

namespace longshore::test {

class TcpWorld : public ShmWorld {
  public:
    // ahead_kept_ns: as NetworkOptions has it.
    TcpWorld(bool inaccessible, bool staging_only, uint64_t limit_ns = kLimitNs, bool tls = false,
             uint64_t ahead_kept_ns = NetworkOptions{}.ahead_kept_ns)
        : ShmWorld(inaccessible, staging_only),
          tls_(tls),
          limit_ns_(limit_ns * slowness()),
          ahead_kept_ns_(ahead_kept_ns) {
        signal(SIGPIPE, SIG_IGN);  // as in service processes
        TcpEnd ends[kNodes][kServices];
        book_.resize(kNodes);
        for (uint16_t n = 0; n < kNodes; ++n) {
            std::string error;
            ports_[n] = NodePort::open(0, 0, kServices, &error);
            EXPECT_TRUE(ports_[n]) << error;
            for (uint16_t s = 0; s < kServices; ++s) {
                ends[n][s] = open_end({NodeId{n}, ServiceId{s}});
                book_[n].push_back(ends[n][s].address);
            }
        }
        turns_ports_ = std::jthread([this](const std::stop_token& over) {
            for (; !over.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
                const std::lock_guard lock(ports_mutex_);
                for (const auto& port : ports_) port->turn();
            }
        });
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (uint16_t s = 0; s < kServices; ++s)
                open({NodeId{n}, ServiceId{s}}, 1, std::move(ends[n][s]));
        }
    }
    // Its former self has been lost.
    void restart(ServiceAddress m, uint32_t incarnation) {
        TcpEnd end = open_end(m);
        start(m, incarnation);
        open(m, incarnation, std::move(end));
    }
    Fabric& fabric(ServiceAddress m) override { return *fabrics_[m.node.value][m.service.value]; }
    void lose(ServiceAddress m) override { fabrics_[m.node.value][m.service.value].reset(); }
    bool reads_need_turns() const override { return true; }

    const ServiceBook& book() const { return book_; }
    // No port takes a turn meanwhile.
    std::unique_lock<std::mutex> hold_ports() { return std::unique_lock(ports_mutex_); }
    // What it has said of itself since it began, all of it.
    std::string problem_at_port(NodeId node) {
        const std::lock_guard lock(ports_mutex_);
        return problems_[node.value] += ports_[node.value]->take_problem();
    }
    uint64_t refused_at_port(NodeId node) {
        const std::lock_guard lock(ports_mutex_);
        return ports_[node.value]->refused();
    }

  private:
    TcpEnd open_end(ServiceAddress of) {
        const std::lock_guard lock(ports_mutex_);
        NetworkSettings settings;
        strcpy(settings.interfaces, "lo");  // tests listen and connect on this machine alone
        TcpEnd end;
        std::string error;
        EXPECT_TRUE(end.open(settings, ports_[of.node.value]->share(of.service), &error)) << error;
        return end;
    }
    void open(ServiceAddress m, uint32_t incarnation, TcpEnd end) {
        NetworkOptions options;
        options.memory = memory(m.node);
        options.self = m;
        options.incarnation = incarnation;
        options.nodes = nodes();
        options.book = book_;
        options.limit_ns = limit_ns_;
        options.ahead_kept_ns = ahead_kept_ns_;
        options.staging_only = staging_only();
        options.tls = tls_;
        std::string error;
        auto& fabric = fabrics_[m.node.value][m.service.value];
        fabric = TcpFabric::create(std::move(options), std::move(end), take_fabric(m), &error);
        EXPECT_TRUE(fabric) << error;
    }
    const bool tls_;
    const uint64_t limit_ns_, ahead_kept_ns_;
    ServiceBook book_;
    std::unique_ptr<NodePort> ports_[kNodes];
    std::string problems_[kNodes];
    std::mutex ports_mutex_;
    std::jthread turns_ports_;
    std::unique_ptr<TcpFabric> fabrics_[kNodes][kServices];
};

}  // namespace longshore::test
