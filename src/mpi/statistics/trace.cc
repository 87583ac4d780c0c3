#include "mpi/statistics/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include "mpi/statistics/json.h"

namespace longshore::mpi {
namespace {

constexpr size_t kSpansMax = 1 << 18;         // per rank; what comes later is counted and left out
constexpr uint32_t kTakenMax = 4096;          // moves taken out of the host library at a time
constexpr uint32_t kServiceLane = 1'000'000;  // service processes come after the ranks

struct Span {
    const char* category;
    const char* name;
    uint64_t begin_ns, end_ns;
};

bool on = false;
uint64_t origin_ns = 0;
uint64_t lost = 0;
std::mutex guard;

std::vector<Span>& spans() {
    static auto* list = new std::vector<Span>;
    return *list;
}

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

double us(uint64_t ns) {
    return (static_cast<double>(ns) - static_cast<double>(origin_ns)) * 1e-3;
}

// `bytes` null: not known, as of the calls of a rank.
void append_event(std::string* out, const char* category, const char* name, uint32_t node, uint32_t thread,
                  uint64_t begin_ns, uint64_t end_ns, const uint64_t* bytes) {
    append(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f",
           category, name, node, thread, us(begin_ns), static_cast<double>(end_ns - begin_ns) * 1e-3);
    if (bytes) append(out, ",\"args\":{\"bytes\":%" PRIu64 "}", *bytes);
    *out += "},\n";
}

void append_name(std::string* out, const char* what, uint32_t node, uint32_t thread, const char* prefix,
                 uint32_t number) {
    append(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s %u\"}},\n", what,
           node, thread, prefix, number);
}

// This rank's lines, each ending in ",\n".
std::string own_lines() {
    std::string out;
    const uint32_t node = shim().context ? ls_node(shim().context) : 0;
    const auto rank = static_cast<uint32_t>(shim().rank);
    append_name(&out, "process_name", node, rank, "node", node);
    append_name(&out, "thread_name", node, rank, "rank", rank);
    for (const Span& span : spans())
        append_event(&out, span.category, span.name, node, rank, span.begin_ns, span.end_ns, nullptr);
    if (!shim().context) return out;
    std::vector<ls_trace_event> events(kTakenMax);
    std::vector<bool> named;
    for (uint32_t count; (count = ls_trace_take(shim().context, events.data(), kTakenMax)) > 0;) {
        for (uint32_t i = 0; i < count; ++i) {
            const ls_trace_event& event = events[i];
            const bool service = event.lane != UINT32_MAX;
            const uint32_t thread = service ? kServiceLane + event.lane : rank;
            if (service && event.lane < kServiceLane) {
                if (named.size() <= event.lane) named.resize(event.lane + 1);
                if (!named[event.lane]) append_name(&out, "thread_name", node, thread, "SP", event.lane);
                named[event.lane] = true;
            }
            // A read that is under way takes no time of the service process: a kind of its own.
            append_event(&out, event.kind == 2 ? "read" : "move", event.kind == 0 ? "move" : "read", node,
                         thread, event.begin_ns, event.end_ns, &event.value);
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
    on = true;
}

bool trace_wanted() {
    return on;
}

void trace_span(const char* category, const char* name, uint64_t begin_ns, uint64_t end_ns) {
    if (!on) return;
    std::lock_guard<std::mutex> lock(guard);
    if (spans().size() < kSpansMax)
        spans().push_back({category, name, begin_ns, end_ns});
    else
        ++lost;
}

void write_trace() {
    if (!on) return;
    on = false;
    std::string mine = own_lines();
    if (mine.size() > INT_MAX) mine.resize(mine.rfind('\n', INT_MAX - 1) + 1);
    if (lost > 0)
        say(LogLevel::kWarn, "the trace of rank " + std::to_string(shim().rank) + " is full, " +
                                 std::to_string(lost) + " spans are left out");
    // One rank after the other: together they may be more than an int of bytes.
    const int length = static_cast<int>(mine.size());
    if (shim().rank != 0) {
        PMPI_Send(&length, 1, MPI_INT, 0, 0, shim().world);
        PMPI_Send(mine.data(), length, MPI_CHAR, 0, 1, shim().world);
        return;
    }
    std::string all = "{\"traceEvents\":[\n" + mine;
    for (int r = 1; r < shim().size; ++r) {
        int bytes = 0;
        PMPI_Recv(&bytes, 1, MPI_INT, r, 0, shim().world, MPI_STATUS_IGNORE);
        std::string lines(static_cast<size_t>(bytes), ' ');
        PMPI_Recv(lines.data(), bytes, MPI_CHAR, r, 1, shim().world, MPI_STATUS_IGNORE);
        all += lines;
    }
    all.erase(all.rfind(','));
    // So that it can be laid beside what others on this machine have measured.
    append(&all, "\n],\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"origin_ns\":%" PRIu64 "}}\n", origin_ns);
    write_file(shim().trace_path, all);
}

}  // namespace longshore::mpi
