#include "mpi/statistics/stats.h"

namespace longshore::mpi {

void count_packed(uint64_t bytes, uint64_t device_bytes, uint64_t ns) {
    figures().packed_bytes += bytes;
    figures().packed_ns += ns;
    figures().device_bytes += device_bytes;
}

void count_unpacked(uint64_t bytes, uint64_t device_bytes, uint64_t ns) {
    figures().unpacked_bytes += bytes;
    figures().unpacked_ns += ns;
    figures().device_bytes += device_bytes;
}

void count_staging(int64_t bytes) {
    static std::atomic<int64_t> staged;
    const int64_t now = staged.fetch_add(bytes) + bytes;
    uint64_t most = figures().staging_bytes_max;
    while (now > 0 && static_cast<uint64_t>(now) > most &&
           !figures().staging_bytes_max.compare_exchange_weak(most, static_cast<uint64_t>(now))) {
    }
}

}  // namespace longshore::mpi
