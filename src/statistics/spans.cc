#include "statistics/spans.h"

#include <cinttypes>

#include "statistics/call.h"
#include "statistics/json.h"

namespace longshore::statistics {

void append_event(std::string* out, const char* category, const char* name, const Lane& lane,
                  uint64_t begin_ns, uint64_t end_ns, const uint64_t* bytes) {
    const double begin_us = (static_cast<double>(begin_ns) - static_cast<double>(lane.origin_ns)) * 1e-3;
    append(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f",
           category, name, lane.node, lane.thread, begin_us, static_cast<double>(end_ns - begin_ns) * 1e-3);
    if (bytes) append(out, ",\"args\":{\"bytes\":%" PRIu64 "}", *bytes);
    *out += "},\n";
}

void append_name(std::string* out, const char* what, const Lane& lane, const char* prefix, uint32_t number) {
    append(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s %u\"}},\n", what,
           lane.node, lane.thread, prefix, number);
}

void append_spans(std::string* out, const Lane& lane, const SpanList& spans) {
    static constexpr const char* kKinds[] = {"post", "wait", "mpi", "test"};
    append_name(out, "process_name", lane, "node", lane.node);
    append_name(out, "thread_name", lane, "rank", lane.thread);
    const uint64_t count = spans.count.load(std::memory_order_acquire);
    for (uint64_t i = 0; i < count && i < kSpansMax; ++i) {
        const Span& span = spans.at[i];
        append_event(out, kKinds[static_cast<int>(span.kind)], function_name(span.function), lane,
                     span.begin_ns, span.end_ns, nullptr);
    }
}

std::string trace_of(std::string lines, uint64_t origin_ns, bool complete) {
    std::string all = "{\"traceEvents\":[\n" + std::move(lines);
    if (const size_t comma = all.rfind(','); comma != all.npos) all.erase(comma);
    append(&all,
           "\n],\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"origin_ns\":%" PRIu64 ",\"complete\":%s}}\n",
           origin_ns, complete ? "true" : "false");
    return all;
}

}  // namespace longshore::statistics
