// The world of the fabric on a DPU: members that are told nothing of where their ranks are but the keys to
// their memory, and an agent on the host of each node that has opened it, with a thread of its own.
#pragma once

#include <poll.h>

#include <atomic>
#include <thread>

#include "dpu/transport/host_fabric.h"
#include "fabric/described_fabric.h"
#include "ucx_world.h"

namespace longshore::test {

class HostWorld : public UcxWorld {
  public:
    static constexpr uint64_t kAgentLimitNs = 5'000'000'000;
    explicit HostWorld(uint64_t agent_limit_ns = kAgentLimitNs, bool aliases = false)
        : UcxWorld(false, !aliases), aliases_(aliases) {
        HostOptions options;
        options.limit_ns = agent_limit_ns;
        options.aliases = aliases;
        for (uint16_t n = 0; n < kNodes; ++n) {
            std::string error;
            agents_[n].worker =
                UcxWorker::create(&error, aliases ? UcxWorker::Use::kAliases : UcxWorker::Use::kMemory);
            EXPECT_TRUE(agents_[n].worker) << error;
            for (uint16_t r = 0; r < kRanks; ++r) open_memory(NodeId{n}, LocalRank{r});
            const auto address = agents_[n].worker->address();
            options.agents.emplace_back(address.begin(), address.end());
            agents_[n].thread = std::thread([this, n] { serve(agents_[n]); });
        }
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (uint16_t s = 0; s < kServices; ++s) {
                const ServiceAddress m{NodeId{n}, ServiceId{s}};
                options.memory = memory(m.node);
                options.node = m.node;
                std::string error;
                auto to_hosts = HostFabric::create(options, take_network(m), local(m), &error);
                EXPECT_TRUE(to_hosts) << error;
                hosts_[n][s] = to_hosts.get();
                DescribedOptions described;
                described.memory = options.memory;
                described.self = m;
                fabrics_[n][s] = std::make_unique<DescribedFabric>(described, std::move(to_hosts));
            }
        }
    }
    ~HostWorld() override {
        for (const NodeId node : {NodeId{0}, NodeId{1}}) end_agent(node);
    }
    bool from_staging_to_staging_only() const override { return true; }
    Fabric& fabric(ServiceAddress m) override { return *fabrics_[m.node.value][m.service.value]; }
    void lose(ServiceAddress m) override { fabrics_[m.node.value][m.service.value].reset(); }
    // By which others read it.
    std::vector<std::byte> descriptor(NodeId node, LocalRank rank) {
        return encode_host_region(regions_[node.value][rank.value]);
    }
    // Behind the member's fabric, what imports descriptors.
    HostFabric& host_fabric(ServiceAddress m) { return *hosts_[m.node.value][m.service.value]; }
    // How bytes are counted on the way is the network's business.
    std::optional<Moved> moved(ServiceAddress) override { return std::nullopt; }
    // What is said of a rank's region, to be published anew.
    HostRegion& region(NodeId node, LocalRank rank) { return regions_[node.value][rank.value]; }
    void publish(NodeId node, LocalRank rank) {
        RegionEntry& entry = memory(node).region(rank, kUserRegion);
        withdraw_region(entry);
        EXPECT_TRUE(publish_host_region(entry, region(node, rank)));
    }
    void end_agent(NodeId node) {
        stop_agent(node);
        agents_[node.value].worker.reset();
    }
    // It is there, but does nothing any more.
    void stop_agent(NodeId node) {
        Agent& agent = agents_[node.value];
        agent.over = true;
        if (agent.thread.joinable()) agent.thread.join();
    }

  private:
    struct Agent {
        std::unique_ptr<UcxWorker> worker;
        std::thread thread;
        std::atomic<bool> over{false};
    };
    void open_memory(NodeId node, LocalRank rank) {
        HostRegion& region = regions_[node.value][rank.value];
        UcxWorker& agent = *agents_[node.value].worker;
        std::string error;
        const UcxOpening* const opening =
            agent.open_memory({bytes(node, rank), kRegionBytes}, &region.key, &error);
        EXPECT_NE(opening, nullptr) << error;
        if (aliases_) {
            EXPECT_TRUE(agent.export_memory(opening, &region.exported, &error)) << error;
        }
        region.node = node;
        region.address = reinterpret_cast<uint64_t>(bytes(node, rank));
        region.bytes = kRegionBytes;
        publish(node, rank);
    }
    static void serve(Agent& agent) {
        while (!agent.over) {
            if (agent.worker->progress() || !agent.worker->arm()) continue;
            pollfd network{agent.worker->event_fd(), POLLIN, 0};
            poll(&network, 1, 5);
        }
    }
    const bool aliases_;
    Agent agents_[kNodes];
    HostRegion regions_[kNodes][kRanks];
    HostFabric* hosts_[kNodes][kServices] = {};
    std::unique_ptr<DescribedFabric> fabrics_[kNodes][kServices];
};

}  // namespace longshore::test
