#include "mpi/statistics/packing.h"

#include <atomic>
#include <cstdio>

#include "mpi/statistics/json.h"
#include "mpi/statistics/stats.h"

namespace longshore::mpi {
namespace {

struct {
    std::atomic<uint64_t> packed_bytes, packed_ns, unpacked_bytes, unpacked_ns, device_bytes,
        staging_bytes_max;
    std::atomic<int64_t> staging_bytes;
} packing;

}  // namespace

PackCounts my_packing() {
    return {packing.packed_bytes, packing.packed_ns,    packing.unpacked_bytes,
            packing.unpacked_ns,  packing.device_bytes, packing.staging_bytes_max};
}

void append_packing(std::string* out, const PackCounts& p) {
    append(out,
           "  \"packing\": {\"packed_bytes\": %" PRIu64 ", \"packed_s\": %.6f, \"unpacked_bytes\": %" PRIu64
           ", \"unpacked_s\": %.6f, \"device_bytes\": %" PRIu64 ", \"staging_bytes_max\": %" PRIu64 "},\n",
           p.packed_bytes, static_cast<double>(p.packed_ns) * 1e-9, p.unpacked_bytes,
           static_cast<double>(p.unpacked_ns) * 1e-9, p.device_bytes, p.staging_bytes_max);
}

void print_packing(const PackCounts& p) {
    if ((p.packed_bytes | p.unpacked_bytes) == 0) return;
    fprintf(
        stderr,
        "longshore: ranks packed %.1f MB in %.3f s and unpacked %.1f MB in %.3f s (%.1f MB of it in device "
        "memory)\n",
        static_cast<double>(p.packed_bytes) * 1e-6, static_cast<double>(p.packed_ns) * 1e-9,
        static_cast<double>(p.unpacked_bytes) * 1e-6, static_cast<double>(p.unpacked_ns) * 1e-9,
        static_cast<double>(p.device_bytes) * 1e-6);
}

void count_packed(uint64_t bytes, uint64_t device_bytes, uint64_t ns) {
    packing.packed_bytes += bytes;
    packing.packed_ns += ns;
    packing.device_bytes += device_bytes;
}

void count_unpacked(uint64_t bytes, uint64_t device_bytes, uint64_t ns) {
    packing.unpacked_bytes += bytes;
    packing.unpacked_ns += ns;
    packing.device_bytes += device_bytes;
}

void count_staging(int64_t bytes) {
    const int64_t now = packing.staging_bytes.fetch_add(bytes) + bytes;
    uint64_t most = packing.staging_bytes_max;
    while (now > 0 && static_cast<uint64_t>(now) > most &&
           !packing.staging_bytes_max.compare_exchange_weak(most, static_cast<uint64_t>(now))) {
    }
}

}  // namespace longshore::mpi
