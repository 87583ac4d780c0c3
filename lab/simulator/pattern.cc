#include "simulator/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/prng.h"

namespace longshore::sim {
namespace {

constexpr uint64_t kTableBytes = 1 << 16;

const std::byte* table() {
    static const std::unique_ptr<std::byte[]> bytes = [] {
        auto made = std::make_unique<std::byte[]>(kTableBytes);
        Prng r(7);
        for (uint64_t i = 0; i < kTableBytes; ++i) made[i] = static_cast<std::byte>(r.next());
        return made;
    }();
    return bytes.get();
}

}  // namespace

void fill_pattern(std::byte* to, uint64_t key, uint64_t at, uint64_t bytes) {
    const std::byte* const from = table();
    uint64_t i = (mix64(key) + at) % kTableBytes;
    while (bytes > 0) {
        const uint64_t n = std::min(bytes, kTableBytes - i);
        memcpy(to, from + i, n);
        to += n;
        bytes -= n;
        i = 0;
    }
}

bool is_pattern(const std::byte* what, uint64_t key, uint64_t at, uint64_t bytes) {
    const std::byte* const from = table();
    uint64_t i = (mix64(key) + at) % kTableBytes;
    while (bytes > 0) {
        const uint64_t n = std::min(bytes, kTableBytes - i);
        if (memcmp(what, from + i, n) != 0) return false;
        what += n;
        bytes -= n;
        i = 0;
    }
    return true;
}

}  // namespace longshore::sim
