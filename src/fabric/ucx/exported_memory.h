// Memory that UCX has exported, as it travels to who makes an alias of it: little-endian and versioned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longshore {

constexpr size_t kExportedBytesMax = 256;

// What UCX says of memory that it exports, and which UCX says so: what another one would make of it nobody
// knows.
struct ExportedMemory {
    uint8_t ucx_major = 0, ucx_minor = 0, ucx_release = 0;
    std::vector<std::byte> handle;
};
// Empty: the handle is too long, or there is none.
std::vector<std::byte> encode_exported(const ExportedMemory& memory);
// False: not one of these, of another version, or not whole.
bool decode_exported(std::span<const std::byte> bytes, ExportedMemory* out);

}  // namespace longshore
