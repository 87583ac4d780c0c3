// Bytes that can be made and checked anywhere: byte `at` of pattern `key`, out of one random table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longshore::sim {

void fill_pattern(std::byte* to, uint64_t key, uint64_t at, uint64_t bytes);
bool is_pattern(const std::byte* what, uint64_t key, uint64_t at, uint64_t bytes);

}  // namespace longshore::sim
