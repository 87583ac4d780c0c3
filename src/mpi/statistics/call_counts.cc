#include "mpi/statistics/call_counts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "mpi/statistics/trace.h"

namespace longshore::mpi {
namespace {

constexpr int kWords = sizeof(Counts) / sizeof(uint64_t);

// Threads may count at once.
std::atomic<uint64_t> words[kWords];

std::atomic<uint64_t>& word(Call call, size_t offset_bytes) {
    return words[(static_cast<size_t>(call.index()) * sizeof(CallCounts) + offset_bytes) / sizeof(uint64_t)];
}

void add(Call call, size_t offset_bytes, uint64_t value) {
    std::atomic<uint64_t>& w = word(call, offset_bytes);
    // Most programs have one thread that calls MPI: a locked addition would be a large part of what a call
    // that the MPI serves costs.
    if (shim().multiple)
        w.fetch_add(value, std::memory_order_relaxed);
    else
        w.store(w.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

// Bytes that came, taken out for blocking calls (index Call); the rest belongs to the other calls of the
// collective.
ls_collective_bytes blocking_bytes[kFamilyCount];
ls_collective_bytes before[kFamilyCount];

// What service processes moved while this rank waited.
std::atomic<uint64_t> waited_bytes[kCollectiveCount];

bool was_offloaded(Call call) {
    return word(call, offsetof(CallCounts, offloaded)).load(std::memory_order_relaxed) != 0;
}

// If no other call of the collective was ever offloaded, everything is this one's and nobody need look in
// between.
bool has_others(Call call) {
    for (int i = 0; i < kCallCount; ++i) {
        const Call other = Call::at(i);
        if (i != call.index() && other.collective() == call.collective() && was_offloaded(other)) return true;
    }
    return false;
}

// The part of `whole` that is proportional to `part` of `sum`.
uint64_t share(uint64_t whole, uint64_t part, uint64_t sum) {
    if (sum == 0) return 0;
    return static_cast<uint64_t>(static_cast<__uint128_t>(whole) * part / sum);
}

void give(CallCounts* to, const ls_collective_bytes& bytes, ls_collective_bytes* left) {
    to->by_service = std::min(bytes.by_service, left->by_service);
    to->by_rank = std::min(bytes.by_rank, left->by_rank);
    to->landed = std::min(bytes.landed, left->landed);
    left->by_service -= to->by_service;
    left->by_rank -= to->by_rank;
    left->landed -= to->landed;
}

// What blocking calls did not take goes to the other calls, which may be open at once: by the bytes that they
// ask for.
void share_out_rest(Counts* counts, int collective, ls_collective_bytes rest) {
    uint64_t asked = 0;
    for (int i = kFamilyCount; i < kCallCount; ++i)
        if (Call::at(i).collective() == collective) asked += counts->call[i].bytes;
    for (int i = kFamilyCount; i < kCallCount; ++i) {
        CallCounts& own = counts->call[i];
        if (Call::at(i).collective() != collective || own.offloaded == 0) continue;
        const ls_collective_bytes its = {share(rest.by_service, own.bytes, asked),
                                         share(rest.by_rank, own.bytes, asked),
                                         share(rest.landed, own.bytes, asked)};
        asked -= own.bytes;
        give(&own, its, &rest);
    }
}

// What was moved while the rank waited belongs to blocking calls first, which do nothing but wait; of the
// others each gets its share by the bytes that service processes moved for it.
void share_out_waited(Counts* counts, int collective) {
    uint64_t left = waited_bytes[collective].load(), rest = 0;
    for (int i = 0; i < kCallCount; ++i) {
        CallCounts& own = counts->call[i];
        if (Call::at(i).collective() != collective) continue;
        if (!Call::at(i).is_blocking()) {
            rest += own.by_service;
            continue;
        }
        own.by_service_waited = own.by_service;
        left -= std::min(left, own.by_service);
    }
    for (int i = kFamilyCount; i < kCallCount; ++i) {
        CallCounts& own = counts->call[i];
        if (Call::at(i).collective() == collective)
            own.by_service_waited = std::min(own.by_service, share(left, own.by_service, rest));
    }
}

void share_out(Counts* counts) {
    if (!shim().context) return;
    ls_collective_bytes came[kCollectiveCount] = {};
    ls_rank_bytes(shim().context, came);
    for (int i = 0; i < kFamilyCount; ++i) {
        const Call call = Call::at(i);
        if (!was_offloaded(call)) continue;
        ls_collective_bytes* left = &came[call.collective()];
        give(&counts->call[i], has_others(call) ? blocking_bytes[i] : *left, left);
    }
    for (int i = 0; i < kCollectiveCount; ++i) {
        share_out_rest(counts, i, came[i]);
        share_out_waited(counts, i);
    }
}

}  // namespace

const char* reason_name(Reason reason) {
    static constexpr const char* kNames[kReasonCount] = {
        "none",     "offload off", "one rank",       "intercommunicator", "communicator not seen", "no group",
        "argument", "small",       "large in place", "selected",          "communicator opted out"};
    return kNames[static_cast<int>(reason)];
}

CallCounts total_of(const Counts& counts) {
    CallCounts total{};
    for (const CallCounts& c : counts.call) {
        total.calls += c.calls;
        total.offloaded += c.offloaded;
        total.host += c.host;
        total.bytes += c.bytes;
        total.bytes_host += c.bytes_host;
        total.by_service += c.by_service;
        total.by_rank += c.by_rank;
        total.landed += c.landed;
        total.by_service_waited += c.by_service_waited;
        for (int t = 0; t < kCallTimeCount; ++t) total.time_ns[t] += c.time_ns[t];
        for (int r = 0; r < kReasonCount; ++r) total.reasons[r] += c.reasons[r];
    }
    return total;
}

Counts my_counts() {
    Counts mine{};
    std::array<uint64_t, kWords> copy{};
    for (int i = 0; i < kWords; ++i) copy[static_cast<size_t>(i)] = words[i].load();
    memcpy(&mine, copy.data(), sizeof mine);
    for (CallCounts& c : mine.call) {
        for (const uint64_t count : c.reasons) c.host += count;
        c.calls = c.offloaded + c.host;
    }
    share_out(&mine);
    return mine;
}

void count_offloaded(Call call, uint64_t bytes, ls_algorithm algorithm) {
    add(call, offsetof(CallCounts, offloaded), 1);
    add(call, offsetof(CallCounts, bytes), bytes);
    add(call, offsetof(CallCounts, algorithms) + sizeof(uint64_t) * static_cast<size_t>(algorithm), 1);
}

void count_host(Call call, Reason reason, uint64_t bytes) {
    if (bytes != 0) add(call, offsetof(CallCounts, bytes_host), bytes);
    add(call, offsetof(CallCounts, reasons) + sizeof(uint64_t) * static_cast<size_t>(reason), 1);
}

void count_time(Call call, CallTime kind, uint64_t ns) {
    add(call, offsetof(CallCounts, time_ns) + sizeof(uint64_t) * static_cast<size_t>(kind), ns);
}

uint64_t stats_now_ns() {
    return stats_wanted() ? now_ns() : 0;
}

namespace {
std::atomic<uint64_t> in_mpi_waits_ns;
constexpr uint64_t kTracedNs = 1000;  // a shorter wait found its requests complete: no line of the trace
}  // namespace

MpiWaitNote::MpiWaitNote(const char* name) : name_(name), begin_ns_(begin_of_call_ns()) {}

MpiWaitNote::~MpiWaitNote() {
    if (begin_ns_ == 0) return;
    const uint64_t end_ns = now_ns();
    in_mpi_waits_ns.fetch_add(end_ns - begin_ns_, std::memory_order_relaxed);
    if (end_ns - begin_ns_ >= kTracedNs) trace_span("mpi", name_, begin_ns_, end_ns);
}

uint64_t mpi_waits_ns() {
    return in_mpi_waits_ns.load(std::memory_order_relaxed);
}

WaitNote::WaitNote() : counts_(stats_wanted() && shim().context) {
    if (!counts_) return;
    ls_collective_bytes now[kCollectiveCount];
    ContextLock lock;
    ls_rank_bytes(shim().context, now);
    for (int i = 0; i < kCollectiveCount; ++i) before_[i] = now[i].by_service;
}

WaitNote::~WaitNote() {
    if (!counts_) return;
    ls_collective_bytes now[kCollectiveCount];
    ContextLock lock;
    ls_rank_bytes(shim().context, now);
    for (int i = 0; i < kCollectiveCount; ++i)
        waited_bytes[i].fetch_add(now[i].by_service - before_[i], std::memory_order_relaxed);
}

void note_blocking_begin(Call call) {
    if (!stats_wanted() || !has_others(call)) return;
    ls_collective_bytes now[kCollectiveCount];
    ContextLock lock;
    ls_rank_bytes(shim().context, now);
    before[call.index()] = now[call.collective()];
}

void note_blocking_end(Call call) {
    if (!stats_wanted()) return;
    ls_collective_bytes all[kCollectiveCount];
    ContextLock lock;
    ls_rank_bytes(shim().context, all);
    const ls_collective_bytes& now = all[call.collective()];
    ls_collective_bytes& own = blocking_bytes[call.index()];
    if (!has_others(call)) {
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
        out.offloaded += word(Call::at(i), offsetof(CallCounts, offloaded)).load();
        for (size_t reason = 0; reason < kReasonCount; ++reason)
            out.host += word(Call::at(i), offsetof(CallCounts, reasons) + sizeof(uint64_t) * reason).load();
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
