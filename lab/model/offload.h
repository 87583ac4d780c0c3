// A job whose collectives the product carries: all ranks and service processes are the engine's own, under
// the clock of an EventQueue. Service processes run on the nodes' DPUs and ranks on the hosts; then each rank
// has a stand-in on the DPU, which posts its collectives there and sees when they are complete. Or they run
// on cores of the hosts, and ranks post in their memory.
#pragma once

#include <memory>

#include "engine/rank_engine.h"
#include "model/mirror.h"
#include "model/receivers.h"
#include "model/timing.h"
#include "scale/frames.h"
#include "scale/mapped.h"

namespace longshore::timed {

class SimulatedRank;
class ServiceProcess;

constexpr RegionId kBuffers{1};  // the region that both buffers of a rank lie in
constexpr uint32_t kBuffersGeneration = 1;

class Offload final {
  public:
    Offload(const Job& job, Watcher* watcher);
    ~Offload();
    Outcome run();

    // --- for ranks and service processes
    const Job& job() const { return job_; }
    const Machine& machine() const { return job_.machine; }
    // Whose memory service processes run in.
    Side service_side() const { return job_.is_on_dpu() ? Side::kDpu : Side::kHost; }
    EventQueue& queue() { return queue_; }
    Wires& wires() { return wires_; }
    const NodeMemory& memory(uint32_t node) const { return memories_[node]; }
    // Those that an engine's step has rung and that sleep.
    void wake(uint32_t node, const WakeSet& wake);
    // A service process without a core of its own has run for so long, on a core whose rank rests or, if
    // there is none, on that of the rank of its node that has lost least to it.
    void take_core(uint32_t node, Time time);
    // How many of those have to be woken by a call to the system.
    uint32_t sleepers(uint32_t node, const WakeSet& wake);
    SimulatedRank& rank_at(uint32_t node, uint32_t local);
    ServiceProcess& service_at(ServiceAddress at);
    // From one service process to another, `delay` from now; `taken` goes with it (ServiceProcess::kTaken).
    void send_frame(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame, Time delay,
                    uint8_t taken);
    // A frame under way, until it is taken out again.
    uint32_t keep_frame(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame);
    const scale::Frame& kept_frame(uint32_t kept) const { return frames_[kept]; }
    void drop_frame(uint32_t kept) { free_frames_.push_back(kept); }
    OperationArguments arguments(uint32_t rank, uint64_t sequence) const;
    // Whether stand-ins have their ranks copy shared blocks.
    bool hands_over() const {
        return job_.is_on_dpu() && job_.handover == Handover::kAsBuilt && is_shared(job_.collective) &&
               job_.ranks_per_node > 1;
    }
    // The operation that ranks have begun to enter last; how many of a node's have.
    uint64_t sequence() const { return sequence_; }
    uint32_t entered(uint32_t node) const { return entered_[node]; }
    void rank_has_entered(uint32_t node, LocalRank local);
    void rank_is_done(uint32_t rank, Time latency);
    // For the node that stands for those that are not simulated, where there are such.
    Receivers* receivers_of(uint32_t node) { return node != 0 ? receivers_.get() : nullptr; }
    Time step_time(Time mean) { return timing_.step_time(mean); }

  private:
    void make_node(uint32_t node);
    void make_groups(uint32_t node);
    std::vector<Member> members_of(uint32_t group) const;
    void begin_operation(uint64_t sequence);
    double work_done() const;
    void count(Outcome* out) const;

    const Job job_;
    EventQueue queue_;
    Wires wires_;
    Timing timing_;
    std::vector<std::unique_ptr<scale::Mapped>> blocks_;
    std::vector<NodeMemory> memories_;
    std::vector<std::unique_ptr<SimulatedRank>> ranks_;      // by node, then by local rank
    std::vector<std::unique_ptr<ServiceProcess>> services_;  // by node, then by number
    std::vector<scale::Frame> frames_;
    std::vector<uint32_t> free_frames_;
    std::unique_ptr<Mirror> mirror_;        // where other nodes do what node 0 does
    std::unique_ptr<Receivers> receivers_;  // where they only take a broadcast
    uint64_t sequence_ = 0;
    std::vector<uint32_t> entered_;  // by node
    Lateness late_;                  // in the counted iterations
    std::vector<BlockSpan> spans_;   // all ranks' blocks lie alike
};

}  // namespace longshore::timed
