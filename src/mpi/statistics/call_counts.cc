// What a rank counts of each call, into its figures.
#include <algorithm>
#include <cstddef>

#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"

namespace longshore::mpi {
namespace {

void add(std::atomic<uint64_t>& word, uint64_t value) {
    // Most programs have one thread that calls MPI: a locked addition would be a large part of what a call
    // that the MPI serves costs.
    if (shim().multiple)
        word.fetch_add(value, std::memory_order_relaxed);
    else
        word.store(word.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

void add(Call call, size_t offset_bytes, uint64_t value) {
    add(figures().word(call, offset_bytes), value);
}

// Likewise of the calls on one communicator.
void add(Call call, CommIndex comm, size_t offset_bytes, uint64_t value) {
    if (comm == CommIndex::kNone) return;
    add(figures().comms[static_cast<size_t>(comm)].words[call.index()][offset_bytes / sizeof(uint64_t)],
        value);
}

// What had come when a blocking call began.
ls_collective_bytes before[kFamilyCount];

// Of this thread: calls around this one that are only timed, and the time within the outermost that is
// counted elsewhere.
constinit thread_local int other_depth = 0;
constinit thread_local uint64_t counted_within_ns = 0;

void note_counted(uint64_t ns) {
    if (other_depth != 0) counted_within_ns += ns;
}

// What has come until now. With ContextLock.
void look_at_bytes() {
    if (shim().context) ls_rank_bytes(shim().context, figures().came);
}

}  // namespace

void count_offloaded(Call call, CommIndex comm, uint64_t bytes, ls_algorithm algorithm) {
    add(call, offsetof(CallCounts, offloaded), 1);
    add(call, offsetof(CallCounts, bytes), bytes);
    add(call, offsetof(CallCounts, algorithms) + sizeof(uint64_t) * static_cast<size_t>(algorithm), 1);
    add(call, comm, offsetof(CommCounts, calls), 1);
    add(call, comm, offsetof(CommCounts, offloaded), 1);
    add(call, comm, offsetof(CommCounts, bytes), bytes);
}

void count_host(Call call, CommIndex comm, Reason reason, uint64_t bytes) {
    if (bytes != 0) add(call, offsetof(CallCounts, bytes_host), bytes);
    add(call, offsetof(CallCounts, reasons) + sizeof(uint64_t) * static_cast<size_t>(reason), 1);
    add(call, comm, offsetof(CommCounts, calls), 1);
    add(call, comm, offsetof(CommCounts, bytes_host), bytes);
}

void count_time(Call call, CommIndex comm, CallTime kind, uint64_t ns) {
    const size_t place = sizeof(uint64_t) * static_cast<size_t>(kind);
    if (kind != CallTime::kBetween) note_counted(ns);
    add(call, offsetof(CallCounts, time_ns) + place, ns);
    add(call, comm, offsetof(CommCounts, time_ns) + place, ns);
}

void count_mpi_test(uint64_t ns) {
    note_counted(ns);
    add(figures().mpi_tests_ns, ns);
}

uint64_t stats_now_ns() {
    return stats_wanted() ? now_ns() : 0;
}

namespace {
constexpr uint64_t kTracedNs = 1000;  // a shorter wait found its requests complete: no line of the trace
}  // namespace

void MpiWaitNote::count() const {
    const uint64_t end_ns = now_ns();
    figures().mpi_waits_ns.fetch_add(end_ns - begin_ns_, std::memory_order_relaxed);
    note_counted(end_ns - begin_ns_);
    if (end_ns - begin_ns_ >= kTracedNs) trace_span(SpanKind::kMpi, function_, begin_ns_, end_ns);
}

OtherNote::OtherNote(Other other) : other_(other) {
    if (other_depth++ != 0) return;
    begin_ns_ = begin_of_call_ns();
    if (begin_ns_ == 0) return;
    counted_within_ns = 0;
    enter(function_of(other), begin_ns_);
}

OtherNote::~OtherNote() {
    --other_depth;
    if (begin_ns_ == 0) return;
    leave();
    const uint64_t end_ns = now_ns(), took_ns = end_ns - begin_ns_;
    const auto i = static_cast<size_t>(other_);
    figures().other_calls[i].fetch_add(1, std::memory_order_relaxed);
    figures().other_ns[i].fetch_add(took_ns - std::min(took_ns, counted_within_ns),
                                    std::memory_order_relaxed);
    if (took_ns >= kTracedNs) trace_span(SpanKind::kMpi, function_of(other_), begin_ns_, end_ns);
}

WaitNote::WaitNote() : counts_(stats_wanted() && shim().context) {
    if (!counts_) return;
    ContextLock lock;
    look_at_bytes();
    for (int i = 0; i < kCollectiveCount; ++i) before_[i] = figures().came[i].by_service;
}

WaitNote::~WaitNote() {
    if (!counts_) return;
    ContextLock lock;
    look_at_bytes();
    for (int i = 0; i < kCollectiveCount; ++i)
        figures().waited_bytes[i].fetch_add(figures().came[i].by_service - before_[i],
                                            std::memory_order_relaxed);
}

void note_blocking_begin(Call call) {
    if (!stats_wanted() || !has_others(figures(), call)) return;
    ContextLock lock;
    look_at_bytes();
    before[call.index()] = figures().came[call.collective()];
}

void note_blocking_end(Call call) {
    if (!stats_wanted()) return;
    ContextLock lock;
    look_at_bytes();
    const ls_collective_bytes& now = figures().came[call.collective()];
    ls_collective_bytes& own = figures().blocking[call.index()];
    if (!has_others(figures(), call)) {
        own = now;
        return;
    }
    const ls_collective_bytes& then = before[call.index()];
    own.by_service += now.by_service - then.by_service;
    own.by_rank += now.by_rank - then.by_rank;
    own.landed += now.landed - then.landed;
}

longshore_counters counters() {
    longshore_counters out{};
    for (int i = 0; i < kCallCount; ++i) {
        out.offloaded += figures().word(Call::at(i), offsetof(CallCounts, offloaded)).load();
        for (size_t reason = 0; reason < kReasonCount; ++reason)
            out.host +=
                figures().word(Call::at(i), offsetof(CallCounts, reasons) + sizeof(uint64_t) * reason).load();
    }
    ls_collective_bytes came[kCollectiveCount] = {};
    ContextLock lock;
    ls_rank_bytes(shim().context, came);
    for (const ls_collective_bytes& bytes : came) {
        out.bytes_by_service += bytes.by_service;
        out.bytes_by_rank += bytes.by_rank;
    }
    return out;
}

}  // namespace longshore::mpi
