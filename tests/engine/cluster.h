// A few nodes in one process, without faults or time: ranks and service processes take turns. For unit tests
// of the engine; the simulator (src/sim) is the place for everything that can go wrong.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "engine/rank_engine.h"
#include "engine/service_engine.h"

namespace longshore {

class Cluster {
  public:
    struct Shape {
        std::vector<uint32_t> ranks_of_node;
        uint32_t services = 1;  // per node
        uint32_t chunk_bytes = 64;
        uint32_t ahead = 8;
        ServiceLimits service_limits;
        bool cooperative = true;
        bool run_services = true;
    };
    explicit Cluster(const Shape& shape);

    uint32_t size() const { return static_cast<uint32_t>(places_.size()); }
    // Registers a span of a rank's memory.
    MemoryRef add_region(uint32_t rank, void* base, uint64_t bytes);
    PostResult post(uint32_t rank, OperationArguments arguments, RecordId* record);
    // Takes turns until the given records (one per rank, or none) are complete; false after too many.
    bool run(const std::vector<std::pair<uint32_t, RecordId>>& until, uint32_t turns_max = 100000);
    void release(uint32_t rank, RecordId record);
    // Everything given back: records, arenas, watches, pools.
    bool clean();

    RankEngine& rank(uint32_t r) { return *places_[r].engine; }
    ServiceEngine& service(uint32_t node, uint32_t s) { return *nodes_[node]->services[s]; }
    GroupSlot group() const { return GroupSlot{0}; }
    uint64_t reads_between_nodes = 0, bytes_between_nodes = 0;

  private:
    struct Node {
        std::unique_ptr<std::byte[]> bytes;
        std::byte* base;
        NodeMemory memory;
        std::vector<std::vector<uint8_t*>> regions;  // [local rank][region]
        std::vector<std::unique_ptr<uint64_t[]>> blocks;
        std::vector<std::unique_ptr<ServiceEngine>> services;
        std::vector<std::vector<uint8_t>> staging;                      // of each
        std::deque<std::pair<uint32_t, std::vector<std::byte>>> inbox;  // service, frame
    };
    struct Place {
        uint32_t node;
        LocalRank local;
        std::unique_ptr<RankEngine> engine;
    };
    uint8_t* address(Node& node, uint32_t service, const MemoryRef& at);
    bool turn_of_service(uint32_t node, uint32_t s);

    Shape shape_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<Place> places_;
};

}  // namespace longshore
