// A few nodes in one process, without faults: ranks and service processes take turns, or service processes
// alone run by clocks of their own (run_timed). For unit tests of the engine; the simulator (lab/simulator)
// is the place for everything that can go wrong.
#pragma once

#include <deque>
#include <map>
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
        uint32_t read_turns = 0;  // of its service process, that a read between nodes takes
        uint64_t generation = 0;  // the ranks' last one so far
        bool move_bytes = true;   // else only the engine's part is done: memory need not be there
    };
    explicit Cluster(const Shape& shape);

    uint32_t size() const { return static_cast<uint32_t>(places_.size()); }
    // Registers a span of a rank's memory.
    MemoryRef add_region(uint32_t rank, void* base, uint64_t bytes);
    PostResult post(uint32_t rank, OperationArguments arguments, RecordId* record);
    // Another group of these ranks, and an operation of its member number `member`.
    GroupSlot add_group(const std::vector<uint32_t>& ranks);
    PostResult post_in(GroupSlot group, uint32_t member, OperationArguments arguments, RecordId* record);
    // Takes turns until the given records (one per rank, or none) are complete; false after too many.
    bool run(const std::vector<std::pair<uint32_t, RecordId>>& until, uint32_t turns_max = 100000);
    // Service processes alone, each as fast as its actions take (kActionNs and bytes at kBytesPerNs). Until
    // the records are complete, and when that was; 0: never.
    uint64_t run_timed(const std::vector<std::pair<uint32_t, RecordId>>& until);
    bool step_timed();  // of whoever is behind
    bool all_complete(const std::vector<std::pair<uint32_t, RecordId>>& records);
    // The clock of whoever is behind.
    uint64_t now_ns() const;
    static constexpr uint64_t kActionNs = 500, kBytesPerNs = 8;
    void release(uint32_t rank, RecordId record);
    // Everything given back: records, arenas, watches, pools.
    bool clean();

    RankEngine& rank(uint32_t r) { return *places_[r].engine; }
    ServiceEngine& service(uint32_t node, uint32_t s) { return *nodes_[node]->services[s]; }
    LocalRank local(uint32_t r) const { return places_[r].local; }
    uint64_t arena_begin(uint32_t r) const {
        return nodes_[places_[r].node]->memory.arena_begin(places_[r].local);
    }
    GroupSlot group() const { return GroupSlot{0}; }
    uint64_t reads_between_nodes = 0, bytes_between_nodes = 0;
    std::map<ServiceAddress, std::vector<NodeId>> read_from;  // by who reads: of which nodes, in order
    uint64_t bytes_moved = 0;                                 // by service processes
    uint64_t requests = 0;                                    // to be told of a block again
    // Frames without blocks in them, by who sends and who gets them.
    std::map<ServiceAddress, uint64_t> control_sent, control_received;

  private:
    struct Node {
        std::unique_ptr<std::byte[]> bytes;
        std::byte* base;
        NodeMemory memory;
        std::vector<std::vector<uint8_t*>> regions;  // [local rank][region]
        std::vector<std::unique_ptr<uint64_t[]>> blocks;
        std::vector<std::unique_ptr<ServiceEngine>> services;
        std::vector<uint64_t> clock_ns;                                 // of each
        std::vector<std::vector<uint8_t>> staging;                      // of each
        std::vector<std::deque<std::pair<uint32_t, Action>>> reading;   // of each: turns left, what
        std::deque<std::pair<uint32_t, std::vector<std::byte>>> inbox;  // service, frame
    };
    struct Place {
        uint32_t node;
        LocalRank local;
        std::unique_ptr<RankEngine> engine;
    };
    uint8_t* address(Node& node, uint32_t service, const MemoryRef& at);
    uint8_t* address(ServiceAddress owner, const RegionName& name, uint64_t offset);
    bool turn_of_service(uint32_t node, uint32_t s);
    void finish_read(uint32_t node, uint32_t s, const Action& read, WakeSet* wake);
    void move(uint8_t* to, const void* from, uint64_t bytes) const;
    void count(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame);

    Shape shape_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<Place> places_;
    std::vector<Member> members_;
    std::vector<std::vector<uint32_t>> groups_;  // by slot
    uint64_t group_data_ = 0;                    // used
};

}  // namespace longshore
