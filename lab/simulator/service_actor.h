// A service process: drives a ServiceEngine as the service driver does (one refused action is kept and tried
// first; asleep when there is nothing to do), and dies at the worst moments.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/service_engine.h"
#include "fabric/described_fabric.h"
#include "simulator/world.h"

namespace longshore::sim {

class ServiceActor {
  public:
    ServiceActor(World& world, ServiceAddress self, uint32_t index, std::byte* block, uint64_t block_bytes);
    static ServiceLimits limits(const WorldOptions& o);

    void start();  // the first time, or again with the next incarnation
    void step();
    void rung();     // by its doorbell
    void arrived();  // something came on its fabric
    void tick();
    // The fabric has moved half (false) or all (true) of the bytes of one of its moves.
    void on_stage(bool whole);
    void die(KillPhase phase);
    // It will die when it next comes to this point.
    void doom(KillPhase phase, uint32_t count) {
        doom_ = phase;
        doom_count_ = count;
    }
    bool alive() const { return alive_; }
    bool expects(uint64_t life) const { return alive_ && life == life_; }
    uint16_t incarnation() const { return incarnation_; }
    ServiceAddress self() const { return self_; }
    void judge_end();
    void count_coverage();
    std::string describe() const;

  private:
    void look_again();
    uint64_t look_at_ns_ = 0;  // when a timer rings, if that lies ahead
    bool doomed_at(KillPhase phase);
    bool carry_out(const Action& a);
    bool take_events();
    void log(const std::string& what);
    void again(uint64_t mean_ns);
    void deliver(const WakeSet& wake) { world_.ring(self_.node, wake); }

    World& world_;
    ServiceAddress self_;
    uint32_t index_;
    NodeMemory memory_;
    std::byte* block_;
    uint64_t block_bytes_;
    std::optional<ServiceEngine> engine_;
    std::optional<DescribedFabric> fabric_;  // of this incarnation, over its part of the world's
    uint16_t incarnation_ = 0;
    uint64_t life_ = 0;  // changes whenever pending steps become void
    bool alive_ = false, asleep_ = false, falling_asleep_ = false;
    uint32_t events_seen_ = 0;  // of the doorbell, before the engine was asked last
    uint32_t seen_events_ = 0;
    std::optional<Action> kept_;
    std::unordered_map<uint64_t, Copy> copies_;
    uint64_t copy_number_ = 0;
    KillPhase doom_ = KillPhase::kAny;
    uint32_t doom_count_ = 0;
};

}  // namespace longshore::sim
