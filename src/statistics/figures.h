// What a rank counts of its own calls, in memory that another process may map: the keeper reads the figures
// of ranks that are gone (keeper.h). Only numbers, no pointers. Written by the rank's threads, read while it
// goes on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "statistics/call.h"
#include "statistics/communicators.h"

namespace longshore::statistics {

// All uint64_t, so that it adds up over ranks in one reduction.
struct CallCounts {
    uint64_t calls, offloaded, host, bytes, bytes_host, by_service, by_rank, landed;
    uint64_t by_service_waited;  // of by_service: moved while this rank waited in MPI; the rest was hidden
    uint64_t time_ns[kCallTimeCount];      // by CallTime
    uint64_t reasons[kReasonCount];        // of `host`; calls and host are summed up at the end
    uint64_t algorithms[kAlgorithmCount];  // of those offloaded, by ls_algorithm
};
struct Counts {
    CallCounts call[kCallCount];
};

// Calls that are only timed, by Other. The time without that of calls in them which are counted elsewhere, as
// those that MPI-IO makes.
struct OtherCounts {
    uint64_t calls[kOtherCount], time_ns[kOtherCount];
};

// Bytes as packed, and the time in the calls that post and complete. staging_bytes_max: packed at once. Added
// up over the ranks.
struct PackCounts {
    uint64_t packed_bytes, packed_ns, unpacked_bytes, unpacked_ns, device_bytes, staging_bytes_max;

    PackCounts& operator+=(const PackCounts& more);
};

// Which operations of one call were waited for at once, on groups of one shape, with table bytes from
// 2^size_class on to below the double (0: and none).
struct AtOnceCell {
    uint32_t call = 0, size_class = 0;  // Call::index()
    uint32_t nodes = 0, ranks_per_node = 0;
    uint64_t calls = 0, at_once = 0;
};
constexpr size_t kAtOnceCellsMax = 512;  // beyond that many, nothing is noted

struct Figures {
    // A Counts, in which `calls`, `host` and the bytes that came are not filled in.
    std::atomic<uint64_t> words[sizeof(Counts) / sizeof(uint64_t)];
    // What came to the rank so far, as of the last look.
    ls_collective_bytes came[kCollectiveCount];
    // Of these, taken out for blocking calls (index Call); the rest belongs to the other calls of the
    // collective.
    ls_collective_bytes blocking[kFamilyCount];
    // What service processes moved while the rank waited.
    std::atomic<uint64_t> waited_bytes[kCollectiveCount];
    std::atomic<uint64_t> mpi_waits_ns;  // in the MPI's own waits, while Longshore had nothing open
    std::atomic<uint64_t> mpi_tests_ns;  // in tests of the MPI's own requests
    std::atomic<uint64_t> other_calls[kOtherCount], other_ns[kOtherCount];  // by Other
    std::atomic<uint64_t> comm_count;
    CommFigures comms[kCommsMax];
    std::atomic<uint64_t> packed_bytes, packed_ns, unpacked_bytes, unpacked_ns, device_bytes,
        staging_bytes_max;
    uint64_t at_once_count;
    AtOnceCell at_once[kAtOnceCellsMax];
    // The call that the rank is in: 1 + its Function, and since when; 0: none. With several threads, of one
    // of them.
    std::atomic<uint64_t> inside, inside_since_ns;

    std::atomic<uint64_t>& word(Call call, size_t offset_bytes) {
        return words[(static_cast<size_t>(call.index()) * sizeof(CallCounts) + offset_bytes) /
                     sizeof(uint64_t)];
    }
    const std::atomic<uint64_t>& word(Call call, size_t offset_bytes) const {
        return const_cast<Figures*>(this)->word(call, offset_bytes);
    }
};

bool was_offloaded(const Figures& figures, Call call);
// If no other call of the collective was ever offloaded, everything is this one's and nobody need look in
// between.
bool has_others(const Figures& figures, Call call);

// With `host`, `calls` and the bytes that came filled in.
Counts counts_of(const Figures& figures);
PackCounts packing_of(const Figures& figures);
OtherCounts others_of(const Figures& figures);
std::vector<CommRow> comms_of(const Figures& figures);
// Cells of several ranks, added up, in order.
std::vector<AtOnceCell> merged(std::vector<AtOnceCell> all);

}  // namespace longshore::statistics
