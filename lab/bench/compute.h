// What a rank does between posting and waiting.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/options.h"

namespace longshore::bench {

class Computation {
  public:
    explicit Computation(Compute kind);
    // Fixes the length. Work is calibrated here, without communication: every rank must call it at the same
    // time.
    void prepare(double length_us);
    void run();

  private:
    double time_of(std::size_t units);
    void work(std::size_t units);

    Compute kind_;
    double length_us_ = 0;
    std::size_t units_ = 0, at_ = 0;
    std::vector<double> a_, b_;  // work: larger than a core's private caches
    double sum_ = 0;
};

}  // namespace longshore::bench
