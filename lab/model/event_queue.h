// Virtual time and the queue of what happens at which time. A radix heap: times never go back, so an event
// lies in the bucket of the highest bit in which its time differs from the last one taken. Events of equal
// times come in the order in which they were added, so a run is the same each time. One thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace longshore::timed {

// Picoseconds: what a few bytes take on a fast link is less than a nanosecond. 64 bits hold 213 days.
using Time = uint64_t;
constexpr Time kNanosecond = 1000, kMicrosecond = 1000 * kNanosecond;
constexpr Time kNever = UINT64_MAX;

// How long so many bytes take at so many bytes a second, rounded up.
constexpr Time time_of(uint64_t bytes, uint64_t bytes_per_second) {
    using Wide = unsigned __int128;
    return static_cast<Time>((static_cast<Wide>(bytes) * 1'000'000'000'000u + bytes_per_second - 1) /
                             bytes_per_second);
}

// Whoever has events: `what` says which of its own it is.
class Actor {
  public:
    virtual void on_event(uint64_t what) = 0;
    // One comes soon: what it will touch may be fetched into the caches. Changes nothing.
    virtual void foresee(uint64_t what) const { (void)what; }

  protected:
    ~Actor() = default;
};

class EventQueue {
  public:
    Time now() const { return now_; }
    uint64_t taken() const { return taken_; }
    bool empty() const { return size_ == 0; }

    void at(Time time, Actor& actor, uint64_t what) {
        LONGSHORE_CHECK(time >= now_);
        buckets_[bucket_of(time)].push_back({time, &actor, what});
        ++size_;
    }
    void after(Time delay, Actor& actor, uint64_t what) { at(now_ + delay, actor, what); }

    // Carries out the next event. The queue must not be empty.
    void step() {
        if (next_ == buckets_[0].size()) advance();
        const Event event = buckets_[0][next_++];
        --size_;
        ++taken_;
        event.actor->on_event(event.what);
    }

  private:
    struct Event {
        Time time;
        Actor* actor;
        uint64_t what;
    };
    size_t bucket_of(Time time) const { return time == now_ ? 0 : size_t(std::bit_width(time ^ now_)); }

    // Sets the time to that of the next event, whose bucket is spread over the lower ones, in order.
    void advance() {
        buckets_[0].clear();
        next_ = 0;
        size_t b = 1;
        while (buckets_[b].empty()) ++b;
        Time first = kNever;
        for (const Event& event : buckets_[b]) first = event.time < first ? event.time : first;
        now_ = first;
        spread_.swap(buckets_[b]);
        for (const Event& event : spread_) {
            const size_t to = bucket_of(event.time);
            buckets_[to].push_back(event);
            if (to <= kNearBucket) event.actor->foresee(event.what);
        }
        spread_.clear();
    }

    // Events of this bucket come within a few others: 2^17 ps.
    static constexpr size_t kNearBucket = 17;
    std::array<std::vector<Event>, 65> buckets_;
    std::vector<Event> spread_;
    Time now_ = 0;
    size_t next_ = 0;  // in the first bucket: events of this very time
    uint64_t size_ = 0, taken_ = 0;
};

}  // namespace longshore::timed
