// One simulated world: its memory, fabric and actors, the loop that runs them, and the judge of what they do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "simulator/coverage.h"
#include "simulator/fabric.h"
#include "simulator/memory.h"
#include "simulator/program.h"

namespace longshore::sim {

class RankActor;
class ServiceActor;

struct Verdict {
    bool ok = true;
    std::string oracle, detail;  // which oracle, and what it saw
    uint64_t hash = 0, events = 0, virtual_ns = 0;
    Coverage coverage{};
};

// At which moment a service process dies.
enum class KillPhase : uint32_t { kAny, kClaimed, kHalf, kMoved, kLanded, kBeforeSend, kAny2 };

class World {
  public:
    World(const WorldOptions& options, Workspace& workspace, bool verbose);
    ~World();
    Verdict run();

    // The first failure counts and ends the run.
    void fail(const char* oracle, const std::string& detail);
    void log(const std::string& line);
    bool verbose() const { return verbose_; }

    // Rings arrive some time after the engine asked for them.
    void ring(NodeId node, const WakeSet& wake);
    bool service_gone(NodeId node) const { return gone_on_node_[node.value]; }
    bool node_lost() const { return node_lost_; }
    // Since when the node has a service process less for good; 0: it has all.
    uint64_t gone_since_ns(NodeId node) const { return gone_since_ns_[node.value]; }
    // Whether some rank of this group is on a node that is gone or lacks a service process, or has given up
    // an operation.
    bool lost_member(uint32_t group) const;
    bool gave_up(uint32_t group) const;
    // Everything it takes to end one service process and to start it again.
    void kill_service(uint32_t index, KillPhase phase);

    const WorldOptions options;
    Scheduler scheduler;
    const Program program;
    std::vector<NodeLimits> limits;
    Memory memory;
    FabricWorld fabric;
    Coverage coverage{};
    // Where each rank's blocks lie in its send buffer, once it has entered: [operation][group rank][group
    // rank]; one offset where everybody gets the same block.
    std::vector<std::vector<std::vector<uint32_t>>> send_offsets;
    std::vector<BlockSpan> scratch_blocks;
    uint32_t ranks_done = 0;
    bool calm = false;          // faults have stopped
    uint64_t last_read_ns = 0;  // when a service process last ended a read
    uint64_t last_copy_ns = 0;  // or a copy
    // Of ranks behind stand-ins: when one last ended a copy, and how many have entered each operation.
    uint64_t last_handed_ns = 0;
    std::vector<uint32_t> entered;
    bool copies_lost = false;  // with an agent
    const RankActor& rank(uint32_t r) const { return *ranks_[r]; }
    uint32_t rank_at(NodeId node, LocalRank local) const { return rank_index_[node.value][local.value]; }
    // The stand-in of this rank is gone: its node's supervisor notices, some time later.
    void notice_loss(uint32_t rank);

  private:
    static std::vector<NodeLimits> make_limits(const WorldOptions& o, const Program& p);
    static std::vector<uint16_t> rank_counts(const WorldOptions& o);
    void dispatch(const Event& e);
    void control(uint64_t value);
    void lose_node();
    void lose_service(uint32_t index);
    void forget_rank(uint32_t rank);
    void end_agent(NodeId node);
    void abandon();
    void judge_end();
    void judge_moved();
    void judge_once();
    std::string stuck() const;

    bool is_lost(NodeId node) const { return node_lost_ && node.value + 1u == options.lost_node; }

    bool verbose_;
    Workspace& workspace_;
    std::vector<std::unique_ptr<RankActor>> ranks_;
    std::vector<std::unique_ptr<ServiceActor>> services_;
    std::vector<std::vector<uint32_t>> rank_index_;
    bool gone_on_node_[kNodesMax] = {};
    uint64_t gone_since_ns_[kNodesMax] = {};
    std::vector<bool> gone_;  // service processes, for good
    uint32_t kills_left_ = 0;
    bool node_lost_ = false, ranks_lost_ = false;
    bool failed_ = false;
    Verdict verdict_;
};

}  // namespace longshore::sim
