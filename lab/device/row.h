// What one measurement gives: repeated, with its mean and spread, as the papers that characterise devices
// print it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace longshore::device {

struct Row {
    std::string test;    // "memcpy", "stream triad", "wake-up", "network latency", ...
    std::string unit;    // "GB/s" (10^9), "us", "ns", "1/s"
    uint64_t bytes = 0;  // of a block or message; 0: none
    uint32_t threads = 1;
    std::vector<double> samples;

    double mean() const {
        return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
    }
    double least() const { return *std::min_element(samples.begin(), samples.end()); }
    double most() const { return *std::max_element(samples.begin(), samples.end()); }
};

// How much is measured.
struct Effort {
    bool quick = false;                            // seconds instead of minutes; shows that all works
    int memory_repeats = 10, network_repeats = 7;  // as in the papers

    // So many messages that a sample takes some 50 ms (quick: 5), where `tried` of them took so long.
    uint64_t messages_of_a_sample(uint64_t tried, double seconds) const {
        return static_cast<uint64_t>(static_cast<double>(tried) * (quick ? 0.005 : 0.05) /
                                     std::max(seconds, 1e-7));
    }
};

}  // namespace longshore::device
