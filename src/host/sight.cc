// What a rank and its node's service processes did, for statistics and timelines.
#include <algorithm>

#include "host/context.h"
#include "host/role.h"

namespace longshore {

void show_rank(ls_context& c) {
    SightJob& job = SightLayout::job(c.sight.data());
    job.size.store(c.size, std::memory_order_relaxed);
    job.wait_report_s.store(c.options.wait_report_s, std::memory_order_relaxed);
    job.job.store(c.job_name, std::memory_order_release);
    SightLayout::rank(c.sight.data(), c.engine->self()).rank.store(c.rank + 1, std::memory_order_release);
}

void show_wait(ls_context& c, const ls_operation& op, uint64_t now) {
    const uint64_t generation =
        c.memory.record(c.engine->self(), op.record).generation.load(std::memory_order_relaxed);
    SightWait& wait = SightLayout::rank(c.sight.data(), c.engine->self()).waits[op.record.value];
    if (wait.generation.load(std::memory_order_relaxed) == generation) return;
    wait.generation.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    wait.started_ns.store(now_ns() - (now - op.waited_since_ns), std::memory_order_relaxed);
    wait.generation.store(generation, std::memory_order_release);
}

void take_times(ls_context& c, RecordId record) {
    c.last_times = {};
    SightTimes* times = SightLayout::times(c.sight.data(), c.engine->self(), record);
    if (times == nullptr) return;
    const auto take = [](Atomic<uint64_t>& word) { return word.exchange(0, std::memory_order_relaxed); };
    c.last_times = {take(times->published_ns),       take(times->first_copy_ns),
                    take(times->landed_ns),          take(times->read_ns),
                    take(times->copies_by_ranks_ns), take(times->copies_by_services_ns)};
}

}  // namespace longshore

using namespace longshore;

int ls_set_breakdown(ls_context* context, int on) {
    ls_context& c = *context;
    if (!c.engine || is_forked(c) || c.node_count > 1) return LS_ERR_UNAVAILABLE;
    c.breakdown = on != 0;
    c.last_times = {};
    // What is left of operations during which it was switched.
    for (uint32_t id = 0; id < kTimedRecordsMax; ++id) take_times(c, RecordId{id});
    c.last_times = {};
    SightLayout::job(c.sight.data()).breakdown.store(c.breakdown, std::memory_order_relaxed);
    return LS_OK;
}

void ls_last_times(const ls_context* context, ls_times* out) {
    *out = context->last_times;
}

ls_moved_bytes ls_rank_moved(const ls_context* context) {
    if (is_forked(*context)) return {};
    if (!context->copier) return context->role->copied_on_host();
    const CopierCounters& c = context->copier->counters();
    return {c.bytes_mapped, c.bytes_peer_copied, c.bytes_bounced, 0, 0, 0};
}

int ls_is_node_leader(const ls_context* context) {
    return context->local == 0;
}
uint32_t ls_node(const ls_context* context) {
    return context->node;
}
uint32_t ls_node_count(const ls_context* context) {
    return context->node_count;
}

void ls_look_around(const ls_context* context, ls_surroundings* out) {
    *out = context->surroundings;
}

uint32_t ls_trace_take(ls_context* context, ls_trace_event* out, uint32_t max) {
    ls_context& c = *context;
    if (c.trace.empty() || is_forked(c)) return 0;
    uint32_t count = 0;
    if (c.trace_written - c.trace_taken > c.trace.size()) c.trace_taken = c.trace_written - c.trace.size();
    while (count < max && c.trace_taken < c.trace_written)
        out[count++] = c.trace[c.trace_taken++ % c.trace.size()];
    for (uint16_t s = 0; c.local == 0 && s < c.service_trace_taken.size(); ++s) {
        const ServiceId id{s};
        uint64_t& taken = c.service_trace_taken[s];
        const uint64_t written =
            SightLayout::slot(c.sight.data(), id).trace_written.load(std::memory_order_acquire);
        if (written < taken) taken = 0;
        if (written - taken > kTraceEntries) taken = written - kTraceEntries;
        for (; count < max && taken < written; ++taken) {
            const TraceEntry& e = SightLayout::trace(c.sight.data(), id)[taken % kTraceEntries];
            out[count++] = {e.begin_ns.load(), e.end_ns.load(), s, static_cast<uint32_t>(e.kind.load()),
                            e.value.load()};
        }
    }
    return count;
}
