// Publishes a service process's counters in the node's memory, where its ranks and observers read them.
#pragma once

#include "engine/node_memory.h"
#include "engine/service_engine.h"
#include "fabric/fabric.h"
#include "service/time_book.h"

namespace longshore {

class CounterBoard {
  public:
    explicit CounterBoard(ServiceSlot& slot) : slot_(slot) {}
    // Before something is done whose end others may see: who then reads the counters waits for them.
    void note_work() {
        if (has_news_) return;
        has_news_ = true;
        slot_.told.store(slot_.told.load(std::memory_order_relaxed) | 1, std::memory_order_release);
    }
    // Before a sleep, which may be long.
    bool has_news() const { return has_news_; }
    bool is_due(uint64_t now_ns) const { return now_ns - last_ns_ > kPublishNs; }
    void publish(const TimeBook::Times& times, const ServiceCounters& engine, const FabricCounters& fabric,
                 uint64_t now_ns);

  private:
    static constexpr uint64_t kPublishNs = 10'000'000;
    ServiceSlot& slot_;
    uint64_t last_ns_ = 0;
    bool has_news_ = false;  // something was done since
};

}  // namespace longshore
