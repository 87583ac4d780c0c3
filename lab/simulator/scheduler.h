// Virtual time: a queue of events in order of time, then of posting. Everything that happens goes through it,
// so its running hash names a whole run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/prng.h"

namespace longshore::sim {

enum class EventKind : uint8_t {
    kRank,
    kRankWake,
    kService,
    kServiceWake,
    kFabric,
    kTick,
    kControl,
    kStandIn,
    kSession,
    kAgent
};

struct Event {
    uint64_t at_ns = 0;
    uint64_t order = 0;
    uint64_t value = 0;
    uint32_t actor = 0;
    EventKind kind = EventKind::kRank;
};

class Scheduler {
  public:
    explicit Scheduler(uint64_t seed) : random(mix64(seed ^ 0x776f726c64ull)) {}

    void post(uint64_t delay_ns, EventKind kind, uint32_t actor, uint64_t value = 0) {
        queue_.push_back({now_ns_ + delay_ns, ++order_, value, actor, kind});
        std::push_heap(queue_.begin(), queue_.end(), Later());
        if (kind != EventKind::kTick) ++live_;
    }
    bool pop(Event* out) {
        if (queue_.empty()) return false;
        std::pop_heap(queue_.begin(), queue_.end(), Later());
        *out = queue_.back();
        queue_.pop_back();
        if (out->kind != EventKind::kTick) --live_;
        now_ns_ = out->at_ns;
        ++count_;
        note(out->at_ns ^ uint64_t{out->actor} << 40 ^ static_cast<uint64_t>(out->kind) << 56 ^
             out->value << 8);
        return true;
    }
    // The next event's time; UINT64_MAX: none.
    uint64_t next_ns() const { return queue_.empty() ? UINT64_MAX : queue_.front().at_ns; }
    void advance_to(uint64_t ns) { now_ns_ = std::max(now_ns_, ns); }
    void note(uint64_t what) { hash_ = mix64(hash_ ^ what) + 0x9e3779b97f4a7c15ull; }

    uint64_t now_ns() const { return now_ns_; }
    uint64_t count() const { return count_; }
    uint64_t hash() const { return hash_; }
    // Events that are not ticks: without any, nothing will happen by itself.
    uint64_t live() const { return live_; }
    // Up to twice the mean: near enough to "some time around it".
    uint64_t around(uint64_t mean_ns) { return mean_ns == 0 ? 0 : random.below(2 * mean_ns + 1); }

    Prng random;

  private:
    struct Later {  // a type, not a function: the heap's comparisons are most of a large world's time
        bool operator()(const Event& a, const Event& b) const {
            return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
        }
    };
    std::vector<Event> queue_;
    uint64_t now_ns_ = 0, order_ = 0, count_ = 0, hash_ = 0, live_ = 0;
};

}  // namespace longshore::sim
