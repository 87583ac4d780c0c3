// The model of longshore-scale against the engine: a node among modelled ones says and hears what it does
// among real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "scale/report.h"

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
    uint64_t messages;       // control messages to a peer, and from it
    uint64_t bytes_of_rank;  // of the memory that a post touches, for each rank of the job
    uint64_t service_bytes_max;
};

void PrintTo(const CostCase& c, std::ostream* out) {
    *out << c.name;
}

class ScaleCost : public testing::TestWithParam<CostCase> {};

// Messages are counted by peers, memory by ranks of the job: neither grows faster than these.
TEST_P(ScaleCost, MessagesAndMemory) {
    constexpr uint64_t kPage = 4096, kGroupBytes = 1024, kGroupBytesOfARank = 82;
    for (const uint32_t nodes : {16, 64, 128}) {
        Shape s;
        s.nodes = nodes;
        s.ranks = 8;
        s.collective = GetParam().collective;
        s.block_bytes = GetParam().block_bytes;
        const Measured m = measure(s, 3);
        const uint64_t peers = nodes - 1;
        for (const uint64_t messages : {m.sent.control(), m.received.control()}) {
            EXPECT_GE(messages, peers) << nodes;
            EXPECT_LE(messages, peers * GetParam().messages) << nodes;
        }
        EXPECT_EQ(m.rows_dropped, 0u) << nodes;
        EXPECT_GT(m.node_bytes_of_a_rank, 0u) << nodes;
        const uint64_t of_ranks = (s.size() * GetParam().bytes_of_rank + kPage - 1) / kPage;
        EXPECT_LE(m.node_bytes_of_a_rank, (2 + of_ranks) * kPage) << nodes;
        EXPECT_GT(m.group_bytes, 0u) << nodes;
        EXPECT_LE(m.group_bytes, kGroupBytes + s.size() * kGroupBytesOfARank) << nodes;
        EXPECT_LE(m.service_bytes, GetParam().service_bytes_max * std::max(nodes, 64u) / 64) << nodes;
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, ScaleCost,
                         testing::Values(CostCase{"alltoall_64K", kAll, 65536, 2, 8, 1'400'000},
                                         CostCase{"alltoallv_64K", kAllv, 65536, 2, 48, 1'500'000},
                                         CostCase{"alltoallv_1K", kAllv, 1024, 2, 48, 1'500'000},
                                         CostCase{"allgatherv_64K", kGatherv, 65536, 2, 32, 1'000'000},
                                         CostCase{"allgatherv_1K", kGatherv, 1024, 3, 32, 1'300'000},
                                         CostCase{"bcast_64K", kBcast, 65536, 1, 0, 1'000'000},
                                         CostCase{"bcast_1K", kBcast, 1024, 1, 0, 1'000'000}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace longshore::scale
