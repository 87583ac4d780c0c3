// Serial numbers of 32 bits that begin again at 0 after the last one (as RFC 1982 compares them).
#pragma once

#include <cstdint>

namespace longshore {

// Whether `a` was given later than `b`, of two that are less than 2^31 apart.
constexpr bool is_after(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a - b) > 0;
}

}  // namespace longshore
