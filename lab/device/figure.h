// What a row tells of a step that was made many times.
#pragma once

#include <cstdint>

namespace longshore::device {

struct Figure {
    const char* unit;
    double (*of)(double seconds, uint64_t bytes);  // of one step, and that it moved
};

inline constexpr Figure kTime{"us", [](double seconds, uint64_t) { return seconds * 1e6; }};
// Of a step there and back.
inline constexpr Figure kTimeOneWay{"us", [](double seconds, uint64_t) { return seconds * 1e6 / 2; }};
inline constexpr Figure kRate{
    "GB/s", [](double seconds, uint64_t bytes) { return static_cast<double>(bytes) / seconds / 1e9; }};
// Where each step moves the bytes there and as many back.
inline constexpr Figure kRateBothWays{
    "GB/s", [](double seconds, uint64_t bytes) { return 2 * static_cast<double>(bytes) / seconds / 1e9; }};
inline constexpr Figure kPerSecond{"1/s", [](double seconds, uint64_t) { return 1 / seconds; }};

}  // namespace longshore::device
