#include "bench/compute.h"

#include <algorithm>
#include <cmath>

#include "bench/clock.h"

namespace longshore::bench {

namespace {

constexpr std::size_t kWorkDoubles = std::size_t(1) << 19;  // 4 MiB in each of two arrays
constexpr std::size_t kUnitDoubles = 64;                    // a unit: 64 of each, about 0.05 to 0.1 us
constexpr int kCalibrationsMax = 8;

}  // namespace

Computation::Computation(Compute kind) : kind_(kind) {
    if (kind_ != Compute::kWork) return;
    a_.assign(kWorkDoubles, 1.0);
    b_.assign(kWorkDoubles, 0.5);
}

void Computation::work(std::size_t units) {
    for (std::size_t unit = 0; unit < units; ++unit) {
        double* a = a_.data() + at_;
        const double* b = b_.data() + at_;
        double sum = 0;
        for (std::size_t i = 0; i < kUnitDoubles; ++i) {
            a[i] = 0.75 * a[i] + 0.5 * b[i];
            sum += a[i] * b[i];
        }
        sum_ += sum;
        at_ = (at_ + kUnitDoubles) % kWorkDoubles;
    }
    asm volatile("" : : "r"(&sum_), "r"(a_.data()) : "memory");
}

double Computation::time_of(std::size_t units) {
    double best = INFINITY;
    for (int i = 0; i < 3; ++i) {
        const double start = now_us();
        work(units);
        best = std::min(best, now_us() - start);
    }
    return best;
}

void Computation::prepare(double length_us) {
    length_us_ = length_us;
    if (kind_ != Compute::kWork) return;
    units_ = 16;
    for (int i = 0; i < kCalibrationsMax; ++i) {
        const double taken = time_of(units_);
        if (std::abs(taken - length_us) <= 0.02 * length_us) break;
        const double factor = std::clamp(length_us / std::max(taken, 0.05), 0.1, 20.0);
        units_ = std::max<std::size_t>(1, std::size_t(double(units_) * factor + 0.5));
    }
}

void Computation::run() {
    switch (kind_) {
        case Compute::kSleep:
            sleep_us(length_us_);
            break;
        case Compute::kSpin:
            for (const double end = now_us() + length_us_; now_us() < end;) {
            }
            break;
        case Compute::kWork:
            work(units_);
            break;
    }
}

}  // namespace longshore::bench
