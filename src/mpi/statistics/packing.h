// What ranks packed and unpacked themselves, because it has holes or lies in device memory; counted by
// count_packed and its relatives (stats.h).
#pragma once

#include <string>

#include "mpi/shim.h"

namespace longshore::mpi {

// Bytes as packed, and the time in the calls that post and complete. staging_bytes_max: packed at once. Added
// up over the ranks.
struct PackCounts {
    uint64_t packed_bytes, packed_ns, unpacked_bytes, unpacked_ns, device_bytes, staging_bytes_max;
};
PackCounts my_packing();
void append_packing(std::string* out, const PackCounts& packed);
void print_packing(const PackCounts& packed);

}  // namespace longshore::mpi
