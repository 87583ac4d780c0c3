#include "statistics/figures.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "statistics/counts.h"

namespace longshore::statistics {
namespace {

constexpr size_t kWords = sizeof(Counts) / sizeof(uint64_t);
static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share them");

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
void share_out_waited(Counts* counts, int collective, uint64_t left) {
    uint64_t rest = 0;
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

void share_out(const Figures& figures, Counts* counts) {
    ls_collective_bytes came[kCollectiveCount];
    memcpy(came, figures.came, sizeof came);
    for (int i = 0; i < kFamilyCount; ++i) {
        const Call call = Call::at(i);
        if (!was_offloaded(figures, call)) continue;
        ls_collective_bytes* left = &came[call.collective()];
        give(&counts->call[i], has_others(figures, call) ? figures.blocking[i] : *left, left);
    }
    for (int i = 0; i < kCollectiveCount; ++i) {
        share_out_rest(counts, i, came[i]);
        share_out_waited(counts, i, figures.waited_bytes[i].load());
    }
}

auto order_of(const AtOnceCell& cell) {
    return std::array{cell.call, cell.nodes, cell.ranks_per_node, cell.size_class};
}

}  // namespace

bool was_offloaded(const Figures& figures, Call call) {
    return figures.word(call, offsetof(CallCounts, offloaded)).load(std::memory_order_relaxed) != 0;
}

bool has_others(const Figures& figures, Call call) {
    for (int i = 0; i < kCallCount; ++i) {
        const Call other = Call::at(i);
        if (i != call.index() && other.collective() == call.collective() && was_offloaded(figures, other))
            return true;
    }
    return false;
}

Counts counts_of(const Figures& figures) {
    Counts counts{};
    std::array<uint64_t, kWords> copy{};
    for (size_t i = 0; i < kWords; ++i) copy[i] = figures.words[i].load();
    memcpy(&counts, copy.data(), sizeof counts);
    for (CallCounts& c : counts.call) {
        for (const uint64_t count : c.reasons) c.host += count;
        c.calls = c.offloaded + c.host;
    }
    share_out(figures, &counts);
    return counts;
}

OtherCounts others_of(const Figures& figures) {
    OtherCounts counts{};
    for (int i = 0; i < kOtherCount; ++i) {
        counts.calls[i] = figures.other_calls[i];
        counts.time_ns[i] = figures.other_ns[i];
    }
    return counts;
}

std::vector<CommRow> comms_of(const Figures& figures) {
    std::vector<CommRow> rows;
    const uint64_t count = std::min<uint64_t>(figures.comm_count.load(std::memory_order_acquire), kCommsMax);
    for (uint64_t i = 0; i < count; ++i) rows.push_back(row_of(figures.comms[i]));
    return rows;
}

PackCounts& PackCounts::operator+=(const PackCounts& more) {
    packed_bytes += more.packed_bytes;
    packed_ns += more.packed_ns;
    unpacked_bytes += more.unpacked_bytes;
    unpacked_ns += more.unpacked_ns;
    device_bytes += more.device_bytes;
    staging_bytes_max += more.staging_bytes_max;
    return *this;
}

PackCounts packing_of(const Figures& f) {
    return {f.packed_bytes, f.packed_ns,    f.unpacked_bytes,
            f.unpacked_ns,  f.device_bytes, f.staging_bytes_max};
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

void add_up(Counts* sum, const Counts& more) {
    std::array<uint64_t, kWords> a{}, b{};
    memcpy(a.data(), sum, sizeof *sum);
    memcpy(b.data(), &more, sizeof more);
    for (size_t i = 0; i < kWords; ++i) a[i] += b[i];
    memcpy(sum, a.data(), sizeof *sum);
}

void add_up(OtherCounts* sum, const OtherCounts& more) {
    for (int i = 0; i < kOtherCount; ++i) {
        sum->calls[i] += more.calls[i];
        sum->time_ns[i] += more.time_ns[i];
    }
}

uint64_t total_ns(const OtherCounts& others, bool collectives_only) {
    uint64_t sum = 0;
    for (int i = 0; i < kOtherCount; ++i)
        if (!collectives_only || is_collective(static_cast<Other>(i))) sum += others.time_ns[i];
    return sum;
}

std::vector<AtOnceCell> merged(std::vector<AtOnceCell> all) {
    std::vector<AtOnceCell> out;
    std::sort(all.begin(), all.end(),
              [](const AtOnceCell& a, const AtOnceCell& b) { return order_of(a) < order_of(b); });
    for (const AtOnceCell& cell : all) {
        if (out.empty() || order_of(out.back()) != order_of(cell)) {
            out.push_back(cell);
            continue;
        }
        out.back().calls += cell.calls;
        out.back().at_once += cell.at_once;
    }
    return out;
}

}  // namespace longshore::statistics
