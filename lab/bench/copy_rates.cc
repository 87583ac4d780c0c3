// What one core copies by each of the ways in which a block can get from one process into another, while
// every other rank sleeps. Same buffers over and over, so the small ones are in the cache.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "base/text.h"
#include "bench/copy_limit.h"
#include "bench/modes.h"
#include "bench/polite.h"
#include "bench/statistics.h"

namespace longshore::bench {

namespace {

constexpr std::size_t kRateSizes[] = {4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20};
constexpr std::size_t kRateBytesMax = 32 << 20;
constexpr double kSampleUs = 500;  // at least so long: the clock costs nothing then

struct PeerMemory {
    int process;
    std::uint64_t address;
};

struct Places {
    std::uint8_t *from, *to;     // this process's own
    const std::uint8_t* mapped;  // written by the peer
    PeerMemory peer;             // private to it
};

struct Way {
    const char* name;                                       // in JSON
    const char* title;                                      // in the table
    bool (*copy)(const Places& places, std::size_t bytes);  // false: not permitted
};

bool to_peer_or_from(const Places& places, std::size_t bytes, bool write) {
    iovec here{places.to, bytes};
    iovec there{reinterpret_cast<void*>(places.peer.address), bytes};
    const auto moved =
        (write ? process_vm_writev : process_vm_readv)(places.peer.process, &here, 1, &there, 1, 0);
    return moved == ssize_t(bytes);
}

constexpr Way kWays[] = {
    {"memcpy_private", "memcpy, private",
     [](const Places& places, std::size_t bytes) {
         std::memcpy(places.to, places.from, bytes);
         return true;
     }},
    {"memcpy_mapped", "memcpy, mapped",
     [](const Places& places, std::size_t bytes) {
         std::memcpy(places.to, places.mapped, bytes);
         return true;
     }},
    {"process_vm_readv", "process_vm_readv",
     [](const Places& places, std::size_t bytes) { return to_peer_or_from(places, bytes, false); }},
    {"process_vm_writev", "process_vm_writev",
     [](const Places& places, std::size_t bytes) { return to_peer_or_from(places, bytes, true); }},
};

// us per copy, of as many as fill a sample; less than 0 where the system refuses.
double sample(const Way& way, const Places& places, std::size_t bytes) {
    const double start = now_us();
    double end = start;
    int count = 0;
    do {
        if (!way.copy(places, bytes)) return -1;
        asm volatile("" : : "r"(places.to) : "memory");  // nobody else looks at what was copied
        ++count;
        end = now_us();
    } while (end - start < kSampleUs);
    return (end - start) / count;
}

void measure(const Session& session, const Places& places, JsonLines& json) {
    fmt::print(
        "\n# copying on one core, the other ranks asleep; GB/s (10^9), medians of {} samples in turns\n{:>6}",
        session.options.samples, "bytes");
    for (const Way& way : kWays) fmt::print(" {:>18}", way.title);
    fmt::print("\n");
    for (const std::size_t bytes : kRateSizes) {
        std::vector<double> samples[std::size(kWays)];
        for (const Way& way : kWays) sample(way, places, bytes);
        for (int turn = 0; turn < session.options.samples; ++turn)
            for (std::size_t i = 0; i < std::size(kWays); ++i)
                samples[i].push_back(sample(kWays[i], places, bytes));
        fmt::print("{:>6}", show_size(bytes));
        for (std::size_t i = 0; i < std::size(kWays); ++i) {
            const Summary summary = summarize(samples[i]);
            const double rate = summary.min > 0 ? double(bytes) / summary.median / 1e3 : 0;
            fmt::print(" {:>18}", rate > 0 ? fmt::format("{:.2f}", rate) : "not permitted");
            json.write({{"type", "copy-rate"},
                        {"way", kWays[i].name},
                        {"bytes", bytes},
                        {"gb_per_s", rate},
                        {"samples_us", samples[i]}});
        }
        fmt::print("\n");
        std::fflush(stdout);
    }
}

}  // namespace

int run_copy_rates(const Session& session, int nodes, JsonLines& json) {
    if (nodes > 1 || session.ranks < 2) {
        if (session.root())
            fmt::print(stderr,
                       "longshore-bench: --copy-limit needs at least two ranks, all on one machine\n");
        return 2;
    }
    const int peer = 1;
    const SharedMemory shared(kRateBytesMax, MPI_COMM_WORLD);
    GuardedBytes from(kRateBytesMax), to(kRateBytesMax);
    if (session.rank == peer) std::memset(shared.part(peer), 1, kRateBytesMax);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where Yama restricts it
    PeerMemory memory{int(getpid()), reinterpret_cast<std::uint64_t>(from.data())};
    PMPI_Bcast(&memory, int(sizeof memory), MPI_BYTE, peer, MPI_COMM_WORLD);
    if (session.root()) {
        shared.touch_all();
        measure(session, {from.data(), to.data(), shared.part(peer), memory}, json);
    }
    polite_barrier(MPI_COMM_WORLD);
    return 0;
}

}  // namespace longshore::bench
