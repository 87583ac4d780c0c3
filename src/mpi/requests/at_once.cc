#include "mpi/requests/at_once.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "mpi/statistics/gather.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"

namespace longshore::mpi {
namespace {

// Less time than this between the start and the wait is no computation that could hide an operation; nor is a
// tenth of the operation's time.
constexpr uint64_t kAtOnceNs = 20'000;
constexpr uint64_t kAtOnceShare = 10;
constexpr uint64_t kTested = UINT64_MAX;  // Operation::waited_ns: by MPI_Test

std::mutex cells_mutex;
size_t last = 0;  // calls repeat their sizes

std::atomic<uint64_t> starts = 0;

bool is_same(const AtOnceCell& a, const AtOnceCell& b) {
    return a.call == b.call && a.size_class == b.size_class && a.nodes == b.nodes &&
           a.ranks_per_node == b.ranks_per_node;
}

void add(const AtOnceCell& one) {
    Figures& f = figures();
    const std::lock_guard lock(cells_mutex);
    if (f.at_once_count == 0 || !is_same(f.at_once[last], one)) {
        AtOnceCell* const end = f.at_once + f.at_once_count;
        AtOnceCell* const found =
            std::find_if(f.at_once, end, [&](const AtOnceCell& cell) { return is_same(cell, one); });
        if (found == end && f.at_once_count == kAtOnceCellsMax) return;
        last = static_cast<size_t>(found - f.at_once);
        if (found == end)
            f.at_once[f.at_once_count++] = {one.call, one.size_class, one.nodes, one.ranks_per_node, 0, 0};
    }
    f.at_once[last].calls += one.calls;
    f.at_once[last].at_once += one.at_once;
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

TestNote::TestNote(Function function, int count, const MPI_Request requests[]) : function_(function) {
    begin_ns_ = begin_of_call_ns();
    if (begin_ns_ == 0 || !any_open()) return;
    note_tests(count, requests);
    for (int i = 0; i < count && !is_ours_; ++i) {
        Operation* ours = find_operation(requests[i]);
        if (!ours || !is_open(*ours)) continue;
        // Read now: a request that completes takes its operation with it.
        call_ = ours->call;
        comm_ = ours->comm;
        is_ours_ = true;
    }
}

TestNote::~TestNote() {
    if (begin_ns_ == 0) return;
    const uint64_t end_ns = now_ns();
    if (!is_ours_)
        count_mpi_test(end_ns - begin_ns_);
    else if (stats_wanted())
        count_time(call_, comm_, CallTime::kTesting, end_ns - begin_ns_);
    trace_test(function_, begin_ns_, end_ns);
}

void note_complete(const Operation& operation) {
    if (operation.call.is_blocking() || !stats_wanted()) return;
    const uint64_t waited = operation.first_wait_ns.load(std::memory_order_relaxed);
    const uint64_t between_end = waited != 0 ? waited : now_ns();
    if (between_end > operation.started_ns)
        count_time(operation.call, operation.comm, CallTime::kBetween, between_end - operation.started_ns);
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
    const Figures& mine = figures();
    return merged(gather_on_root(mine.at_once, mine.at_once_count));
}

}  // namespace longshore::mpi
