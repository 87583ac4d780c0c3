// How many bytes of reads a service process keeps in flight, so that the link is never idle and no more waits
// in queues than that takes: as much as comes in the time that a read takes on an idle link, and while the
// service processes of both ends wait for their cores, which ranks may be using. All of it is measured. Pure:
// the driver says what time it is.
#pragma once

#include <algorithm>
#include <cstdint>

namespace longshore {

class ReadWindow {
  public:
    // At least and at most so many bytes; at first `begin`. bytes_max comes first where they differ. The
    // least is what a request may wait behind, of the bytes that its own side is sending: a socket's buffer.
    // That wait does not show in the shortest delay, and with less of a window one direction of a link
    // starves.
    struct Limits {
        uint64_t bytes_min = 4u << 20, bytes_max = 64u << 20, bytes_begin = 4u << 20;
    };
    ReadWindow() : ReadWindow(Limits{}) {}
    explicit ReadWindow(const Limits& limits) : limits_(limits) {
        limits_.bytes_min = std::min(limits.bytes_min, limits.bytes_max);
        bytes_ = std::clamp(limits.bytes_begin, limits_.bytes_min, limits_.bytes_max);
    }

    // A read is posted; `in_flight`: bytes of the others.
    void on_post(uint64_t in_flight, uint64_t now_ns);
    // It has come, as posted then.
    void on_read(uint64_t bytes, uint64_t in_flight, uint64_t posted_ns, uint64_t now_ns);
    // For so long this service process, when it wanted to run, has just waited for its core.
    void on_core_wait(uint64_t wait_ns, uint64_t now_ns);

    uint64_t bytes() const { return probing_ ? limits_.bytes_min : bytes_; }

  private:
    static constexpr uint32_t kRates = 16;
    void close_interval(uint64_t now_ns);
    void update();

    Limits limits_;
    uint64_t bytes_;
    // The rate is the highest of the last kRates intervals in which something was in flight all the time.
    uint64_t interval_begin_ns_ = 0, interval_bytes_ = 0;
    uint64_t rates_[kRates] = {};
    uint32_t rates_next_ = 0;
    uint64_t rate_ = 0;
    // The delay is the shortest of this period and the one before. Each period begins with little in flight,
    // until a read has come that waited behind little: else the window would be measured by the queue that it
    // makes.
    uint64_t period_begin_ns_ = 0, period_delay_ns_ = UINT64_MAX, delay_ns_ = UINT64_MAX;
    bool probing_ = false;
    // The longest of this period of waits and the one before: most are short, and it is the others that leave
    // a link idle.
    uint64_t waits_begin_ns_ = 0, period_wait_ns_ = 0, core_wait_ns_ = 0;
};

}  // namespace longshore
