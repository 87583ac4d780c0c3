// The model of longshore-scale against the engine: a node among modelled ones says and hears what it does
// among real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "sim/scale/report.h"

namespace longshore::scale {
namespace {

struct ModelCase {
    const char* name;
    uint32_t services;
    Collective collective;
    uint64_t block_bytes;
    Entry entry = Entry::kTogether;
    uint32_t nodes = 8, ranks = 8;
};

void PrintTo(const ModelCase& c, std::ostream* out) {
    *out << c.name;
}

Shape shape_of(const ModelCase& c, uint32_t real_nodes) {
    Shape s;
    s.nodes = c.nodes;
    s.ranks = c.ranks;
    s.services = c.services;
    s.real_nodes = real_nodes;
    s.collective = c.collective;
    s.block_bytes = c.block_bytes;
    s.entry = c.entry;
    s.stagger_rounds = 100;
    s.helps = false;  // who lends to whom depends on who is done first
    return s;
}

struct Range {
    uint64_t least, most;
};

// Of what a service process of that number says on the first `nodes` real nodes.
template <class F>
Range range_of(const OperationResult& result, uint32_t nodes, uint32_t services, uint32_t service,
               F&& count) {
    Range r{UINT64_MAX, 0};
    for (uint32_t n = 0; n < nodes; ++n) {
        const uint64_t one = count(result.services[n * services + service]);
        r = {std::min(r.least, one), std::max(r.most, one)};
    }
    return r;
}

// Messages, not frames: several to one peer go in one frame or in two, as the turns of peers fall. Where
// ranks enter one by one, which of two peers is told first depends on the number of the node, and rows and
// acknowledgements share messages as it falls: real nodes differ by up to 7 of 42 from one another, and a
// modelled world's first node is to be as one of them, or one message beside.
void expect_equal(const ModelCase& c, const OperationResult& real, const OperationResult& modelled,
                  uint32_t service) {
    const bool staggered = c.entry == Entry::kStaggered;
    const uint32_t nodes = staggered ? c.nodes : 1, slack = staggered ? 1 : 0;
    const ServiceResult &first = real.services[service], &other = modelled.services[service];
    const auto expect_in = [&](const char* what, MessageKind kind, uint64_t value, const Range& range) {
        EXPECT_LE(range.least, value + slack) << what << ": " << name_of(kind) << ", " << service;
        EXPECT_LE(value, range.most + slack) << what << ": " << name_of(kind) << ", " << service;
    };
    for (uint32_t k = 1; k <= kMessageKinds; ++k) {
        const auto kind = static_cast<MessageKind>(k);
        const auto sent = [&](const ServiceResult& r) { return r.sent.of(kind); };
        const auto received = [&](const ServiceResult& r) { return r.received.of(kind); };
        expect_in("sent", kind, sent(other), range_of(real, nodes, c.services, service, sent));
        expect_in("received", kind, received(other), range_of(real, nodes, c.services, service, received));
    }
    EXPECT_EQ(first.sent.rows, other.sent.rows);
    EXPECT_EQ(first.received.rows, other.received.rows);
    EXPECT_EQ(first.reads, other.reads);
}

class ScaleModel : public testing::TestWithParam<ModelCase> {};

TEST_P(ScaleModel, SaysWhatRealNodesSay) {
    World real(shape_of(GetParam(), GetParam().nodes)), modelled(shape_of(GetParam(), 1)),
        several(shape_of(GetParam(), 3));
    for (int operation = 1; operation <= 3; ++operation) {
        const OperationResult a = real.run(), b = modelled.run(), c = several.run();
        for (uint32_t s = 0; s < GetParam().services; ++s) {
            expect_equal(GetParam(), a, b, s);
            expect_equal(GetParam(), a, c, s);
        }
    }
}

constexpr auto kAll = Collective::kAlltoall, kAllv = Collective::kAlltoallv,
               kGatherv = Collective::kAllgatherv, kBcast = Collective::kBcast;
INSTANTIATE_TEST_SUITE_P(
    Cases, ScaleModel,
    testing::Values(ModelCase{"alltoall", 1, kAll, 65536}, ModelCase{"alltoall_2", 2, kAll, 65536},
                    ModelCase{"alltoallv", 1, kAllv, 65536}, ModelCase{"alltoallv_2", 2, kAllv, 65536},
                    ModelCase{"allgatherv", 1, kGatherv, 65536},
                    ModelCase{"allgatherv_2", 2, kGatherv, 65536}, ModelCase{"bcast", 1, kBcast, 65536},
                    ModelCase{"bcast_2", 2, kBcast, 65536}, ModelCase{"small_alltoall", 1, kAll, 1024},
                    ModelCase{"small_alltoall_2", 2, kAll, 1024},
                    ModelCase{"small_alltoallv", 1, kAllv, 1024},
                    ModelCase{"small_allgatherv_2", 2, kGatherv, 1024},
                    ModelCase{"small_bcast", 1, kBcast, 1024},
                    ModelCase{"staggered_alltoallv", 1, kAllv, 65536, Entry::kStaggered},
                    ModelCase{"staggered_alltoallv_2", 2, kAllv, 65536, Entry::kStaggered},
                    ModelCase{"staggered_allgatherv_2", 2, kGatherv, 65536, Entry::kStaggered}),
    [](const auto& one) { return std::string(one.param.name); });

// --- what an operation costs

struct CostCase {
    const char* name;
    Collective collective;
    uint64_t block_bytes;
    uint64_t sent, received;           // control messages
    uint64_t node_bytes, group_bytes;  // touched by a rank's post; of the group
    uint64_t service_bytes_max;
};

void PrintTo(const CostCase& c, std::ostream* out) {
    *out << c.name;
}

class ScaleCost : public testing::TestWithParam<CostCase> {};

// Exact: whoever changes how nodes talk, or what lies in a node's memory, changes these numbers knowingly.
TEST_P(ScaleCost, MessagesAndMemoryAt64Nodes) {
    Shape s;
    s.nodes = 64;
    s.ranks = 8;
    s.collective = GetParam().collective;
    s.block_bytes = GetParam().block_bytes;
    const Measured m = measure(s, 3);
    EXPECT_EQ(m.sent.control(), GetParam().sent);
    EXPECT_EQ(m.received.control(), GetParam().received);
    EXPECT_EQ(m.rows_dropped, 0u);
    EXPECT_EQ(m.node_bytes_of_a_rank, GetParam().node_bytes);
    EXPECT_EQ(m.group_bytes, GetParam().group_bytes);
    EXPECT_LE(m.service_bytes, GetParam().service_bytes_max);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ScaleCost,
    testing::Values(CostCase{"alltoall_64K", kAll, 65536, 126, 126, 12288, 42560, 1'400'000},
                    CostCase{"alltoallv_64K", kAllv, 65536, 126, 126, 32768, 42560, 1'500'000},
                    CostCase{"alltoallv_1K", kAllv, 1024, 126, 126, 32768, 42560, 1'500'000},
                    CostCase{"allgatherv_64K", kGatherv, 65536, 126, 126, 24576, 42560, 1'000'000},
                    CostCase{"allgatherv_1K", kGatherv, 1024, 188, 188, 24576, 42560, 1'300'000},
                    CostCase{"bcast_64K", kBcast, 65536, 63, 63, 8192, 42560, 1'000'000},
                    CostCase{"bcast_1K", kBcast, 1024, 63, 63, 8192, 42560, 1'000'000}),
    [](const auto& one) { return std::string(one.param.name); });

// --- time, only where no sanitizer and no emulator takes most of it

struct Least {
    double per_block, per_peer;
};

Least least(Collective collective, uint32_t nodes, uint32_t ranks, uint32_t services) {
    Shape s;
    s.nodes = nodes;
    s.ranks = ranks;
    s.services = services;
    s.collective = collective;
    s.block_bytes = 65536;
    const Measured m = measure(s, 9);
    return {m.least_ns / static_cast<double>(std::max<uint64_t>(m.pairs(), 1)),
            m.least_ns / static_cast<double>(m.peers)};
}

// Others on the machine make either of the two slower: the best of some tries counts.
template <class F>
double best_of(F&& measure_once, double enough) {
    double best = measure_once();
    for (int tries = 1; tries < 20 && best > enough; ++tries) best = std::min(best, measure_once());
    return best;
}

// What it was when this was written; half as much again fails. Other guests of the machine, with whom it
// shares caches, make the larger job slower by a third for seconds; what the tests are for, growth with the
// nodes or peers, is a factor of 8 or 16.
constexpr double kSlack = 1.5;

TEST(ScaleTime, PerBlockDoesNotGrowWithTheNodes) {
    for (const Collective c : {kAll, kAllv, kGatherv}) {
        const double enough = 1.06 * kSlack;
        const double ratio =
            best_of([&] { return least(c, 256, 8, 1).per_block / least(c, 16, 8, 1).per_block; }, enough);
        EXPECT_LE(ratio, enough) << rules_of(c).name;
    }
}

TEST(ScaleTime, PerPeerDoesNotGrowWithThePeers) {
    const double enough = 1.10 * kSlack;
    const double ratio =
        best_of([&] { return least(kAll, 512, 4, 4).per_peer / least(kAll, 64, 4, 4).per_peer; }, enough);
    EXPECT_LE(ratio, enough);
}

// The goals are 200 ns and 2 us. Slower machines than the one they were set on may take twice as long, and
// others on the machine may take half of it.
TEST(ScaleTime, GoalsWithRoom) {
    EXPECT_LE(best_of([&] { return least(kAll, 64, 32, 1).per_block; }, 800), 800);
    EXPECT_LE(best_of([&] { return least(kAll, 256, 1, 1).per_peer; }, 8000), 8000);
    EXPECT_LE(best_of([&] { return least(kBcast, 256, 32, 1).per_peer; }, 8000), 8000);
}

}  // namespace
}  // namespace longshore::scale
