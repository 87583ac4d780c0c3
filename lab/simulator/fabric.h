// The simulator's fabric. Every service process has one; together they share a FabricWorld, which knows the
// memory and the clock. In a world the event loop owns the clock and poll() never waits; standing alone
// (tests/conformance: make_sim_fabrics below) poll() lets virtual time pass.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/import_table.h"
#include "fabric/importing_fabric.h"
#include "simulator/memory.h"
#include "simulator/scheduler.h"

namespace longshore::sim {

class SimFabric;

class FabricWorld {
  public:
    FabricWorld(const WorldOptions& options, Scheduler& scheduler, Memory& memory);
    ~FabricWorld();

    SimFabric& fabric(ServiceAddress a) { return *fabrics_[index(a)]; }
    uint32_t index(ServiceAddress a) const { return first_of_node_[a.node.value] + a.service.value; }
    uint32_t count() const { return static_cast<uint32_t>(fabrics_.size()); }
    // An event of kind kFabric.
    void on_event(uint32_t actor, uint64_t value);
    // The process is gone, with all it had in flight. Whether it had moved bytes without having been told so.
    bool kill(uint32_t index);
    void restart(uint32_t index);
    // It is gone for good: everybody is told, each in his own time.
    void lose(uint32_t index);
    // So is its node, with its ranks' memory.
    void lose_node(NodeId node);

    // Something has arrived for a service process that may sleep.
    std::function<void(uint32_t)> on_arrival = [](uint32_t) {};
    std::function<void(ServiceAddress, const WakeSet&)> on_wake = [](ServiceAddress, const WakeSet&) {};
    // A copy, write or read of this service process has come half way (false) or has all its bytes (true).
    std::function<void(uint32_t, bool)> on_stage = [](uint32_t, bool) {};
    // What service processes find where the agent of a host has a rank's memory, and what becomes of what
    // they write there.
    enum class HostSight : uint8_t { kMemory, kZeros, kGivenUp };
    std::function<HostSight(NodeId, LocalRank)> host_sight = [](NodeId, LocalRank) {
        return HostSight::kMemory;
    };
    std::function<void(const std::string&)> on_violation = [](const std::string&) {};

    uint64_t bytes_between_nodes = 0, reads_along = 0;
    bool owns_clock = false;  // nobody else lets time pass: poll() does
    bool calm = false;        // faults have stopped

  private:
    friend class SimFabric;
    void tell_of_loss(uint32_t index, uint32_t gone);
    const WorldOptions& options_;
    Scheduler& scheduler_;
    Memory& memory_;
    uint32_t first_of_node_[kNodesMax + 1] = {};
    bool node_lost_[kNodesMax] = {};
    uint64_t link_free_ns_[kNodesMax][kNodesMax] = {};  // from, to: when what is on its way has come
    std::vector<std::unique_ptr<SimFabric>> fabrics_;
};

class SimFabric final : public ImportingFabric {
  public:
    SimFabric(FabricWorld& world, ServiceAddress self, uint32_t index);
    Post send(ServiceAddress to, std::span<const std::byte> message) override;
    Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
              uint64_t working_set = 0) override;
    Post read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
              const AlongPart* part = nullptr) override;
    void send_along(ServiceAddress to, const BlockName& block, const RegionName& region, uint64_t offset,
                    uint64_t bytes) override;
    Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) override;
    std::span<const std::byte> staging_descriptor() const override;
    Post import_region(ServiceAddress owner, const RegionName& name, std::span<const std::byte> descriptor,
                       uint64_t id) override;
    void forget_region(ImportHandle region) override;
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) override;
    void wake(const WakeSet& sleepers) override;
    bool arrived() const { return !arrived_.empty(); }
    uint32_t in_flight() const { return in_flight_; }

  private:
    friend class FabricWorld;
    struct Move {
        bool used = false;
        uint32_t life = 0;                // of the fabric, when it was posted
        uint8_t stage = 0;                // 0 posted, 1 half the bytes, 2 all of them, 3 reported
        const std::byte* from = nullptr;  // kWrite; else see below
        bool from_import = false;
        NodeId from_node;
        MemoryRef from_ref, to;
        uint64_t bytes = 0, id = 0;
        RegionIdentity name;                                  // reads: what the import was of
        std::shared_ptr<const std::vector<std::byte>> along;  // reads: their block, which came along
        // Where the bytes are and belong, when they began to move, and the use of the region they are read
        // from.
        const std::byte* source = nullptr;
        std::byte* target = nullptr;
        RegionUse use;
        MoveResult result = MoveResult::kMoved;
    };
    struct Along {
        BlockName block;
        std::shared_ptr<const std::vector<std::byte>> bytes;
    };
    struct Arrival {
        FabricEvent event;
        std::vector<std::byte> message;
    };
    struct Flying {
        uint32_t number, epoch;
        std::vector<std::byte> message;
        uint64_t late_ns = 0;  // one of its ends died meanwhile: it takes so much longer
    };
    struct Link {  // to one peer
        uint64_t last_ns = 0;
        bool lost = false;  // what is in flight was lost with one of its ends
        uint32_t epoch = 0;
        uint32_t posted = 0;
        std::vector<Flying> flying;
    };

    bool refuse();
    Post start(Move move);
    void step(uint32_t slot);
    MoveResult reach(NodeId node, const MemoryRef& ref);
    std::byte* resolve(NodeId node, const MemoryRef& ref, uint64_t bytes, std::string* wrong);
    void describe_staging();
    // Whose staging memory an import is of; null: of a process that is gone.
    SimFabric* staging_owner(const RegionIdentity& name);
    bool is_withdrawn(const Move& m) const;
    bool find(Move& m);
    bool transfer(Move& m, uint64_t begin, uint64_t end);
    FabricWorld::HostSight sight(NodeId node, const MemoryRef& ref) const;
    void arrive(Arrival arrival);
    void take_message(uint32_t peer, uint32_t number);
    void hear_of_loss(uint32_t peer);

    FabricWorld& world_;
    ServiceAddress self_;
    uint32_t index_;
    bool alive_ = true;
    bool lost_ = false;  // for good
    bool peer_lost_[kNodesMax * kServicesPerNodeMax] = {};
    uint32_t life_ = 1;
    uint32_t again_run_ = 0;
    uint32_t in_flight_ = 0;
    std::vector<std::byte> staging_, staging_descriptor_;
    std::vector<Move> moves_;
    ImportTable<RegionIdentity> imports_;
    std::vector<std::pair<uint64_t, Arrival>> importing_;
    std::vector<Link> links_;
    std::deque<Arrival> arrived_;
    std::deque<Along> along_;
    std::vector<std::vector<std::byte>> lent_;  // messages of the last poll
};

// A job's fabrics with memory of their own, for the conformance suite: `nodes` nodes with `services` members
// each.
struct SimFabrics {
    WorldOptions options;
    Workspace workspace;
    std::unique_ptr<Scheduler> scheduler;
    std::unique_ptr<Memory> memory;
    std::unique_ptr<FabricWorld> world;
};
std::unique_ptr<SimFabrics> make_sim_fabrics(uint64_t seed, uint32_t nodes, uint32_t services, uint32_t ranks,
                                             uint64_t pool_bytes, uint32_t staging_bytes, bool staging_only);

}  // namespace longshore::sim
