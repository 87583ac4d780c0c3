// SplitMix64: one 64-bit seed gives one sequence, the same on every machine. For tests and simulators, not
// secrets.
#pragma once

#include <cstdint>

namespace longshore {

inline uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

class Prng {
  public:
    explicit Prng(uint64_t seed) : state_(seed) {}
    uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ull); }
    // Uniform in [0, n), n > 0.
    uint64_t below(uint64_t n) {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
    }
    uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
    bool chance(uint64_t per_mille) { return below(1000) < per_mille; }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  private:
    uint64_t state_;
};

}  // namespace longshore
