#include "scale/meter.h"

#include <algorithm>

namespace longshore::scale {
namespace {

// What timing a call that does nothing counts.
double ticks_of_nothing() {
    static const double least = [] {
        double best = 1e9;
        for (int lap = 0; lap < 20; ++lap) {
            Calls none;
            for (int i = 0; i < 1000; ++i) none.time([] {});
            best = std::min(best, static_cast<double>(none.ticks_taken) / 1000);
        }
        return best;
    }();
    return least;
}

}  // namespace

void Calibration::start() {
    ticks_of_none_ = ticks_of_nothing();
    cpu_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    ticks_ = ticks();
}

void Calibration::stop() {
    const uint64_t passed = ticks() - ticks_;
    cpu_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns_;
    ns_per_tick_ = passed == 0 ? 0 : static_cast<double>(cpu_ns_) / static_cast<double>(passed);
}

double Calibration::ns(const Calls& calls) const {
    const double net =
        static_cast<double>(calls.ticks_taken) - ticks_of_none_ * static_cast<double>(calls.count);
    return std::max(0.0, net) * ns_per_tick_;
}

}  // namespace longshore::scale
