#include "mpi/requests/at_once.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <tuple>

#include "mpi/calls/select.h"
#include "mpi/statistics/gather.h"
#include "mpi/statistics/json.h"
#include "mpi/statistics/stats.h"

namespace longshore::mpi {
namespace {

// Less time than this between the start and the wait is no computation that could hide an operation; nor is a
// tenth of the operation's time.
constexpr uint64_t kAtOnceNs = 20'000;
constexpr uint64_t kAtOnceShare = 10;
constexpr uint64_t kTested = UINT64_MAX;  // Operation::waited_ns: by MPI_Test

// What a rank notes of: beyond that many, nothing.
constexpr size_t kCellsMax = 512;

struct Cells {
    std::mutex mutex;
    std::array<AtOnceCell, kCellsMax> cells;
    size_t count = 0, last = 0;
};
// Never destroyed: MPI calls may come from atexit handlers.
Cells& all_cells() {
    static auto* cells = new Cells;
    return *cells;
}

std::atomic<uint64_t> starts = 0;

bool is_same(const AtOnceCell& a, const AtOnceCell& b) {
    return a.call == b.call && a.size_class == b.size_class && a.nodes == b.nodes &&
           a.ranks_per_node == b.ranks_per_node;
}

void add(const AtOnceCell& one) {
    Cells& all = all_cells();
    const std::lock_guard lock(all.mutex);
    // Calls repeat their sizes.
    if (all.count == 0 || !is_same(all.cells[all.last], one)) {
        const auto end = all.cells.begin() + static_cast<std::ptrdiff_t>(all.count);
        const auto found =
            std::find_if(all.cells.begin(), end, [&](const AtOnceCell& cell) { return is_same(cell, one); });
        if (found == end && all.count == kCellsMax) return;
        all.last = static_cast<size_t>(found - all.cells.begin());
        if (found == end)
            all.cells[all.count++] = {one.call, one.size_class, one.nodes, one.ranks_per_node, 0, 0};
    }
    all.cells[all.last].calls += one.calls;
    all.cells[all.last].at_once += one.at_once;
}

template <class Note>
void note_requests(int count, const MPI_Request requests[], Note note) {
    if (!stats_wanted() || !any_open()) return;
    for (int i = 0; i < count; ++i) {
        Operation* operation = find_operation(requests[i]);
        if (operation && is_open(*operation)) note(*operation);
    }
}

bool was_at_once(const Operation& operation) {
    const uint64_t waited = operation.waited_ns.load(std::memory_order_relaxed);
    if (!operation.alone || waited == 0 || waited == kTested) return false;
    const uint64_t gap = waited - operation.started_ns;
    return gap < kAtOnceNs || kAtOnceShare * gap <= now_ns() - operation.started_ns;
}

auto order_of(const AtOnceCell& cell) {
    return std::tie(cell.call, cell.nodes, cell.ranks_per_node, cell.size_class);
}

}  // namespace

void note_started(Operation* operation) {
    if (!stats_wanted()) return;
    operation->waited_ns.store(0, std::memory_order_relaxed);
    operation->first_wait_ns.store(0, std::memory_order_relaxed);
    operation->alone = !any_open();
    operation->nth = starts.fetch_add(1, std::memory_order_relaxed) + 1;
    operation->started_ns = now_ns();
}

void note_waits(int count, const MPI_Request requests[]) {
    uint64_t now = 0;
    note_requests(count, requests, [&](Operation& operation) {
        if (now == 0) now = now_ns();
        if (operation.first_wait_ns.load(std::memory_order_relaxed) == 0)
            operation.first_wait_ns.store(now, std::memory_order_relaxed);
        if (operation.waited_ns.load(std::memory_order_relaxed) != 0) return;
        const bool last = starts.load(std::memory_order_relaxed) == operation.nth;
        operation.waited_ns.store(last ? now : kTested, std::memory_order_relaxed);
    });
}

void note_tests(int count, const MPI_Request requests[]) {
    note_requests(count, requests, [](Operation& operation) {
        if (operation.waited_ns.load(std::memory_order_relaxed) == 0)
            operation.waited_ns.store(kTested, std::memory_order_relaxed);
    });
}

void note_complete(const Operation& operation) {
    if (operation.call.is_blocking() || !stats_wanted()) return;
    const uint64_t waited = operation.first_wait_ns.load(std::memory_order_relaxed);
    const uint64_t between_end = waited != 0 ? waited : now_ns();
    if (between_end > operation.started_ns)
        count_time(operation.call, CallTime::kBetween, between_end - operation.started_ns);
    AtOnceCell one;
    one.call = static_cast<uint32_t>(operation.call.index());
    one.size_class = static_cast<uint32_t>(std::bit_width(operation.table_bytes | 1)) - 1;
    one.nodes = operation.group->nodes;
    one.ranks_per_node = operation.group->ranks_per_node;
    one.calls = 1;
    one.at_once = was_at_once(operation);
    add(one);
}

std::vector<AtOnceCell> gather_at_once() {
    const Cells& mine = all_cells();
    std::vector<AtOnceCell> all = gather_on_root(mine.cells.data(), mine.count), merged;
    std::sort(all.begin(), all.end(),
              [](const AtOnceCell& a, const AtOnceCell& b) { return order_of(a) < order_of(b); });
    for (const AtOnceCell& cell : all) {
        if (merged.empty() || !is_same(merged.back(), cell)) {
            merged.push_back(cell);
            continue;
        }
        merged.back().calls += cell.calls;
        merged.back().at_once += cell.at_once;
    }
    return merged;
}

void append_at_once(std::string* out, const std::vector<AtOnceCell>& cells) {
    *out += "  \"waited_at_once\": [";
    const char* separator = "\n";
    for (const AtOnceCell& cell : cells) {
        const Call call = Call::at(static_cast<int>(cell.call));
        append(out,
               "%s    {\"call\": \"%s\", \"collective\": \"%s\", \"nodes\": %u, \"ranks_per_node\": %u, ",
               separator, call_name(call), selected_name(selected_of(call)), cell.nodes, cell.ranks_per_node);
        if (has_bytes(selected_of(call)))
            append(out, "\"bytes_first\": %" PRIu64 ", \"bytes_last\": %" PRIu64 ", ",
                   cell.size_class == 0 ? 0 : uint64_t{1} << cell.size_class,
                   (uint64_t{2} << cell.size_class) - 1);
        append(out, "\"calls\": %" PRIu64 ", \"at_once\": %" PRIu64 "}", cell.calls, cell.at_once);
        separator = ",\n";
    }
    *out += cells.empty() ? "],\n" : "\n  ],\n";
}

void print_at_once(const std::vector<AtOnceCell>& cells) {
    for (size_t i = 0; i < cells.size();) {
        const uint32_t call = cells[i].call;
        uint64_t calls = 0, at_once = 0;
        for (; i < cells.size() && cells[i].call == call; ++i) {
            calls += cells[i].calls;
            at_once += cells[i].at_once;
        }
        if (2 * at_once < calls) continue;
        const Call which = Call::at(static_cast<int>(call));
        const char* advice =
            which.form == Form::kPersistent
                ? ""
                : "; 'longshore tune --from-stats FILE', with the FILE of --stats FILE, has the "
                  "next run treat them as blocking calls";
        fprintf(stderr,
                "longshore: %s: %" PRIu64 " of %" PRIu64
                " calls were waited for at once: nothing could overlap%s\n",
                call_name(which), at_once, calls, advice);
    }
}

}  // namespace longshore::mpi
