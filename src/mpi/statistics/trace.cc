#include "mpi/statistics/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include "fabric/shm/system.h"
#include "statistics/json.h"

namespace longshore::mpi {
namespace {

constexpr uint32_t kTakenMax = 4096;          // moves taken out of the host library at a time
constexpr uint32_t kServiceLane = 1'000'000;  // service processes come after the ranks
constexpr uint64_t kTestTracedNs = 1000;      // a shorter test has only looked
constexpr uint64_t kSameTestNs = 1000;        // between two tests that are one span

bool on = false;
uint64_t origin_ns = 0;
SpanList* spans = nullptr;  // while it is on
std::mutex guard;

struct Clock {
    uint64_t origin_ns = 0;
    char boot[40] = "";  // one boot, one CLOCK_MONOTONIC, whatever the host names say
};

Clock own_clock() {
    Clock clock;
    clock.origin_ns = now_ns();
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return clock;
    ssize_t length = read(fd, clock.boot, sizeof clock.boot - 1);
    clock.boot[length > 0 ? length : 0] = 0;
    close(fd);
    return clock;
}

// This rank's lines, each ending in ",\n".
std::string own_lines() {
    std::string out;
    const uint32_t node = shim().context ? ls_node(shim().context) : 0;
    const auto rank = static_cast<uint32_t>(shim().rank);
    append_spans(&out, {origin_ns, node, rank}, *spans);
    if (!shim().context) return out;
    std::vector<ls_trace_event> events(kTakenMax);
    std::vector<bool> named;
    for (uint32_t count; (count = ls_trace_take(shim().context, events.data(), kTakenMax)) > 0;) {
        for (uint32_t i = 0; i < count; ++i) {
            const ls_trace_event& event = events[i];
            const bool service = event.lane != UINT32_MAX;
            const Lane lane{origin_ns, node, service ? kServiceLane + event.lane : rank};
            if (service && event.lane < kServiceLane) {
                if (named.size() <= event.lane) named.resize(event.lane + 1);
                if (!named[event.lane]) append_name(&out, "thread_name", lane, "SP", event.lane);
                named[event.lane] = true;
            }
            // A read that is under way takes no time of the service process: a kind of its own.
            append_event(&out, event.kind == 2 ? "read" : "move", event.kind == 0 ? "move" : "read", lane,
                         event.begin_ns, event.end_ns, &event.value);
        }
    }
    return out;
}

}  // namespace

void trace_begin() {
    if (shim().trace_path.empty()) return;
    Clock own = own_clock(), first = own;
    if (shim().size > 1) PMPI_Bcast(&first, sizeof first, MPI_BYTE, 0, shim().world);
    // Another machine's clock starts elsewhere: its own time after the broadcast is the best that is known.
    origin_ns = strcmp(own.boot, first.boot) == 0 ? first.origin_ns : now_ns();
    // Never given back: MPI calls may come from atexit handlers.
    static auto* const memory = new Mapping(Mapping::anonymous(sizeof(SpanList)));
    if (!*memory) return;
    spans = reinterpret_cast<SpanList*>(memory->data());
    on = true;
}

uint64_t trace_origin_ns() {
    return origin_ns;
}

void note_spans_at(SpanList* place) {
    if (on) spans = place;
}

bool trace_wanted() {
    return on;
}

void trace_span(SpanKind kind, Function function, uint64_t begin_ns, uint64_t end_ns) {
    if (!on) return;
    std::lock_guard<std::mutex> lock(guard);
    const uint64_t count = spans->count.load(std::memory_order_relaxed);
    if (count == kSpansMax) {
        ++spans->lost;
        return;
    }
    spans->at[count] = {begin_ns, end_ns, function, kind};
    spans->count.store(count + 1, std::memory_order_release);
}

void trace_test(Function function, uint64_t begin_ns, uint64_t end_ns) {
    if (!on) return;
    {
        std::lock_guard<std::mutex> lock(guard);
        const uint64_t count = spans->count.load(std::memory_order_relaxed);
        Span* const before = count > 0 ? &spans->at[count - 1] : nullptr;
        if (before && before->kind == SpanKind::kTest && before->function == function &&
            begin_ns < before->end_ns + kSameTestNs) {
            before->end_ns = std::max(before->end_ns, end_ns);
            return;
        }
    }
    if (end_ns - begin_ns >= kTestTracedNs) trace_span(SpanKind::kTest, function, begin_ns, end_ns);
}

void write_trace() {
    if (!on) return;
    on = false;
    std::string mine = own_lines();
    if (mine.size() > INT_MAX) mine.resize(mine.rfind('\n', INT_MAX - 1) + 1);
    if (const uint64_t lost = spans->lost; lost > 0)
        say(LogLevel::kWarn, "the trace of rank " + std::to_string(shim().rank) + " is full, " +
                                 std::to_string(lost) + " spans are left out");
    // One rank after the other: together they may be more than an int of bytes.
    const int length = static_cast<int>(mine.size());
    if (shim().rank != 0) {
        PMPI_Send(&length, 1, MPI_INT, 0, 0, shim().world);
        PMPI_Send(mine.data(), length, MPI_CHAR, 0, 1, shim().world);
        return;
    }
    std::string all = std::move(mine);
    for (int r = 1; r < shim().size; ++r) {
        int bytes = 0;
        PMPI_Recv(&bytes, 1, MPI_INT, r, 0, shim().world, MPI_STATUS_IGNORE);
        std::string lines(static_cast<size_t>(bytes), ' ');
        PMPI_Recv(lines.data(), bytes, MPI_CHAR, r, 1, shim().world, MPI_STATUS_IGNORE);
        all += lines;
    }
    write_file(shim().trace_path, trace_of(std::move(all), origin_ns, true));
}

}  // namespace longshore::mpi
