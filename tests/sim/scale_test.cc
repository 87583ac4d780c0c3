// The model of longshore-scale against the engine: a node among modelled ones says and hears what it does
// among real ones.
#include <gtest/gtest.h>

#include <ostream>

#include "sim/scale/world.h"

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

uint64_t apart(uint64_t a, uint64_t b) {
    return a < b ? b - a : a - b;
}

// Messages, not frames: several to one peer go in one frame or in two, as the turns of peers fall.
void expect_equal(const ServiceResult& real, const ServiceResult& modelled, uint32_t service,
                  uint64_t slack) {
    for (uint32_t k = 1; k <= kMessageKinds; ++k) {
        const auto kind = static_cast<MessageKind>(k);
        // Modelled nodes ask for no regions.
        if (kind == MessageKind::kRegionRequest || kind == MessageKind::kRegion) continue;
        EXPECT_LE(apart(real.sent.of(kind), modelled.sent.of(kind)), slack)
            << "sent: " << name_of(kind) << ", by service process " << service;
        EXPECT_LE(apart(real.received.of(kind), modelled.received.of(kind)), slack)
            << "received: " << name_of(kind) << ", by service process " << service;
    }
    EXPECT_EQ(real.sent.rows, modelled.sent.rows);
    EXPECT_EQ(real.received.rows, modelled.received.rows);
    EXPECT_EQ(real.reads, modelled.reads);
}

class ScaleModel : public testing::TestWithParam<ModelCase> {};

TEST_P(ScaleModel, SaysWhatRealNodesSay) {
    World real(shape_of(GetParam(), GetParam().nodes)), modelled(shape_of(GetParam(), 1)),
        several(shape_of(GetParam(), 3));
    for (int operation = 1; operation <= 3; ++operation) {
        const OperationResult a = real.run(), b = modelled.run(), c = several.run();
        if (operation == 1) continue;  // in which regions are asked for
        // Which of two peers is told first depends on the number of the node. While ranks enter one by one, a
        // row or two more or less go in one message.
        const uint64_t slack = GetParam().entry == Entry::kStaggered ? 4 : 0;
        for (uint32_t s = 0; s < GetParam().services; ++s) {
            expect_equal(a.services[s], b.services[s], s, slack);
            expect_equal(a.services[s], c.services[s], s, slack);
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

}  // namespace
}  // namespace longshore::scale
