// What a rank did when: spans of time in memory that another process may map, and the lines of a Chrome trace
// that are made of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace longshore::statistics {

enum class SpanKind : uint16_t { kPost, kWait, kMpi, kTest };

struct Span {
    uint64_t begin_ns, end_ns;  // CLOCK_MONOTONIC
    uint16_t function;          // a Function
    SpanKind kind;
};
constexpr size_t kSpansMax = 1 << 18;  // per rank; what comes later is counted and left out

// Followed by kSpansMax spans. Threads take turns at writing (trace.cc).
struct SpanList {
    std::atomic<uint64_t> count, lost;
    Span at[kSpansMax];
};

// Where a line belongs: a node, and a rank or service process on it; times count from the origin.
struct Lane {
    uint64_t origin_ns;
    uint32_t node, thread;
};
// `bytes` null: not known, as of the calls of a rank. Each line ends in ",\n".
void append_event(std::string* out, const char* category, const char* name, const Lane& lane,
                  uint64_t begin_ns, uint64_t end_ns, const uint64_t* bytes);
void append_name(std::string* out, const char* what, const Lane& lane, const char* prefix, uint32_t number);
// The rank's own lane with its name, and its spans.
void append_spans(std::string* out, const Lane& lane, const SpanList& spans);

// The whole file: `lines` of all lanes, and the clock, so that it can be laid beside what others on this
// machine have measured. `complete`: false if the job was interrupted.
std::string trace_of(std::string lines, uint64_t origin_ns, bool complete);

}  // namespace longshore::statistics
