#include "engine/read_window.h"

namespace longshore {
namespace {
constexpr uint64_t kIntervalNs = 20'000'000;  // several turns of a scheduler: what comes late is evened out
constexpr uint64_t kPeriodNs = 2'000'000'000;
constexpr uint64_t kWaitsPeriodNs = 500'000'000;
constexpr double kHeadroom = 2;  // estimates lag, and a link that is idle is lost
constexpr double kEnds = 2;      // service processes that wait for a core, one after the other
}  // namespace

void ReadWindow::on_post(uint64_t in_flight, uint64_t now_ns) {
    if (in_flight != 0) return;
    interval_begin_ns_ = now_ns;
    interval_bytes_ = 0;
}

void ReadWindow::on_read(uint64_t bytes, uint64_t in_flight, uint64_t posted_ns, uint64_t now_ns) {
    const uint64_t delay_ns = now_ns - std::min(now_ns, posted_ns);
    if (now_ns - std::min(now_ns, period_begin_ns_) >= kPeriodNs) {
        probing_ = period_begin_ns_ != 0;
        period_begin_ns_ = now_ns;
        delay_ns_ = period_delay_ns_;
        period_delay_ns_ = UINT64_MAX;
    }
    if (in_flight <= limits_.bytes_min && posted_ns >= period_begin_ns_) probing_ = false;
    period_delay_ns_ = std::min(period_delay_ns_, delay_ns);
    delay_ns_ = std::min(delay_ns_, period_delay_ns_);
    interval_bytes_ += bytes;
    if (now_ns - std::min(now_ns, interval_begin_ns_) >= kIntervalNs) close_interval(now_ns);
    update();
}

void ReadWindow::close_interval(uint64_t now_ns) {
    const uint64_t ns = now_ns - interval_begin_ns_;
    rates_[rates_next_++ % kRates] =
        static_cast<uint64_t>(static_cast<double>(interval_bytes_) * 1e9 / static_cast<double>(ns));
    rate_ = *std::max_element(rates_, rates_ + kRates);
    interval_begin_ns_ = now_ns;
    interval_bytes_ = 0;
}

void ReadWindow::on_core_wait(uint64_t wait_ns, uint64_t now_ns) {
    if (now_ns - std::min(now_ns, waits_begin_ns_) >= kWaitsPeriodNs) {
        waits_begin_ns_ = now_ns;
        core_wait_ns_ = period_wait_ns_;
        period_wait_ns_ = 0;
    }
    period_wait_ns_ = std::max(period_wait_ns_, wait_ns);
    core_wait_ns_ = std::max(core_wait_ns_, period_wait_ns_);
    update();
}

void ReadWindow::update() {
    if (rate_ == 0) return;  // nothing is known yet
    const double ns = static_cast<double>(delay_ns_) + kEnds * static_cast<double>(core_wait_ns_);
    const double bytes = kHeadroom * static_cast<double>(rate_) * ns * 1e-9;
    bytes_ = static_cast<uint64_t>(
        std::clamp(bytes, static_cast<double>(limits_.bytes_min), static_cast<double>(limits_.bytes_max)));
}

}  // namespace longshore
