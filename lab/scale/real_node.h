// A node whose ranks and service processes are the engine's. Nobody's memory is moved: a read is over some
// rounds after it was posted, a copy at once.
#pragma once

#include <deque>
#include <memory>

#include "scale/frames.h"
#include "scale/mapped.h"
#include "scale/meter.h"
#include "scale/workload.h"

namespace longshore::scale {

// What one service process did in one operation.
struct ServiceWork {
    Calls next, on_frame, finish;
    MessageCounts sent, received;
    uint64_t reads = 0, copies = 0;
};

class RealNode {
  public:
    RealNode(const Shape& shape, Workload& workload, NodeId id);

    // --- ranks
    void post(uint32_t local, uint64_t sequence);
    bool all_complete();
    // Lets the records of a complete operation go; false: some are still held for readers.
    bool release_all();

    // --- service processes
    void receive(const Frame& frame);
    // Reads that are over by this round, then at most one action of each service process; what is sent goes
    // to `out`. False: there was nothing to do.
    bool turn(uint64_t round, FrameQueue* out);
    bool reads_under_way() const;
    bool idle() const;

    void begin_counting();
    const ServiceWork& work(uint32_t service) const { return services_[service]->work; }
    const ServiceCounters& counters(uint32_t service) const { return services_[service]->engine->counters(); }
    const Calls& posts() const { return posts_; }
    uint64_t service_bytes_touched(uint32_t service) const { return services_[service]->block.touched(); }
    uint64_t service_bytes_mapped(uint32_t service) const { return services_[service]->block.size(); }
    // Of the rank's part of the node's memory.
    uint64_t rank_bytes_touched(uint32_t local) const;
    uint64_t group_bytes() const { return memory_.group(GroupSlot{0}).data_bytes; }

  private:
    struct ReadUnderWay {
        uint32_t id;
        uint64_t over_at;
    };
    struct Service {
        Service(ServiceId number, size_t bytes) : id(number), block(bytes) {}
        ServiceId id;
        Mapped block;
        std::unique_ptr<ServiceEngine> engine;
        std::deque<ReadUnderWay> reads;
        bool awake = true;  // it may have something to do
        ServiceWork work;
    };
    struct LocalOne {
        std::unique_ptr<Mapped> block;
        std::unique_ptr<RankEngine> engine;
        RecordId record;
        bool open = false;
        uint64_t copy = 0, copy_bytes = 0;  // of what it sends, in its arena
    };
    void carry_out(Service& service, const Action& action, uint64_t round, FrameQueue* out);
    void wake_all();

    const Shape shape_;
    Workload& workload_;
    NodeId id_;
    Mapped bytes_;
    NodeMemory memory_;
    std::vector<LocalOne> ranks_;
    std::vector<std::unique_ptr<Service>> services_;
    Calls posts_;
};

}  // namespace longshore::scale
