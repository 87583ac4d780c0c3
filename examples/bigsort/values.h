// The values that are sorted, how an input is made, and sums by which two files are compared whatever their
// order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bigsort {

using Value = std::uint64_t;

// A bijection that mixes all bits (the finishing step of SplitMix64; Steele, Lea and Flood 2014).
inline std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

// How values are distributed: evenly over all unsigned 64-bit integers, most of them small, or only 16 different ones.
enum class Distribution { kUniform, kSkewed, kFew };

// The value at `index` of the input with that seed.
inline Value made_value(std::uint64_t seed, std::uint64_t index, Distribution distribution) {
    const std::uint64_t bits = mix(mix(seed + 0x9e3779b97f4a7c15u) + index * 0x9e3779b97f4a7c15u);
    if (distribution == Distribution::kSkewed) return bits >> (mix(bits) % 64);
    if (distribution == Distribution::kFew) return mix(bits % 16);
    return bits;
}

// How many values there are, and the sum of their hashes: equal for two files that hold the same values in
// any order.
struct Tally {
    std::uint64_t count = 0;
    std::uint64_t hash_sum = 0;

    void add(const Value* values, std::size_t values_count) {
        count += values_count;
        for (std::size_t i = 0; i < values_count; ++i) hash_sum += mix(values[i] + 0x632be59bd9b4e019u);
    }
    bool operator==(const Tally&) const = default;
};

}  // namespace bigsort
