// One service process, two operations: a huge one, and a small one that begins just after it on another
// communicator. Each has its share of the service process, so that the small one takes at most three times as
// long as it does alone. Operations of one size are over one after the other, in the order of their
// communicator, so that a program that computes with each result has something to do. In virtual time, and
// without bytes.
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "cluster.h"

namespace longshore {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kHugeBytes = 64 * kMiB;  // that each rank gives and takes

struct FairnessCase {
    const char* name;
    std::vector<uint32_t> ranks_of_node;
    Collective huge, small;
    uint64_t small_bytes;               // of a block
    std::vector<uint32_t> small_ranks;  // empty: all
    bool stable = false;                // the small one's blocks lie in the ranks' arenas
    uint32_t queue = 8192;              // blocks that a service process can have in its queue
};

void PrintTo(const FairnessCase& c, std::ostream* out) {
    *out << c.name;
}

class Fairness : public testing::TestWithParam<FairnessCase> {
  protected:
    using Records = std::vector<std::pair<uint32_t, RecordId>>;

    static Cluster::Shape shape() {
        Cluster::Shape s;
        s.ranks_of_node = GetParam().ranks_of_node;
        s.chunk_bytes = 64 * 1024;
        s.move_bytes = false;
        s.service_limits.watches_max = 64;
        s.service_limits.eager_bytes = 1024;
        s.service_limits.reads_queued_max = GetParam().queue;
        return s;
    }
    static std::vector<uint32_t> all() {
        const auto& nodes = GetParam().ranks_of_node;
        std::vector<uint32_t> ranks(std::accumulate(nodes.begin(), nodes.end(), 0u));
        std::iota(ranks.begin(), ranks.end(), 0u);
        return ranks;
    }
    static std::vector<uint32_t> small_ranks() {
        return GetParam().small_ranks.empty() ? all() : GetParam().small_ranks;
    }
    static void enter(Cluster& cluster, GroupSlot group, const std::vector<uint32_t>& ranks,
                      Collective collective, uint64_t block_bytes, bool stable, uint64_t sequence,
                      Records* records) {
        const uint64_t bytes = block_bytes * ranks.size();
        for (uint32_t m = 0; m < ranks.size(); ++m) {
            OperationArguments a;
            a.sequence = sequence;
            a.collective = collective;
            a.send_is_stable = stable;
            if (stable) {
                const uint64_t at = cluster.rank(ranks[m]).arena().allocate(bytes);
                ASSERT_NE(at, 0u);
                a.send = {cluster.local(ranks[m]), kArenaRegion, at - cluster.arena_begin(ranks[m])};
            } else {
                a.send = cluster.add_region(ranks[m], nullptr, bytes);
            }
            a.recv = cluster.add_region(ranks[m], nullptr, bytes);
            a.send_block_bytes = a.recv_block_bytes = block_bytes;
            RecordId record;
            ASSERT_EQ(cluster.post_in(group, m, a, &record), PostResult::kPosted);
            records->emplace_back(ranks[m], record);
        }
    }
    void enter_huge(Cluster& cluster) {
        enter(cluster, cluster.group(), all(), GetParam().huge, kHugeBytes / all().size(), false, 1, &huge_);
        // It is well under way.
        const uint64_t begin = cluster.now_ns();
        while (cluster.now_ns() < begin + 1000000) cluster.step_timed();
    }
    // How long the small one takes.
    uint64_t small(Cluster& cluster, GroupSlot group, uint64_t sequence = 1) {
        const uint64_t begin = cluster.now_ns();
        Records records;
        enter(cluster, group, small_ranks(), GetParam().small, GetParam().small_bytes, GetParam().stable,
              sequence, &records);
        const uint64_t end = cluster.run_timed(records);
        EXPECT_GT(end, begin);
        for (const auto& [rank, record] : records) cluster.release(rank, record);
        return end - begin;
    }
    Records huge_;
};

TEST_P(Fairness, SmallIsNotStarvedByHuge) {
    Cluster quiet(shape()), busy(shape());
    const uint64_t alone = small(quiet, quiet.add_group(small_ranks()));
    enter_huge(busy);
    const uint64_t beside = small(busy, busy.add_group(small_ranks()));
    RecordProperty("alone_ns", static_cast<int>(alone));
    RecordProperty("beside_ns", static_cast<int>(beside));
    printf("  alone %.1f us, beside a huge one %.1f us: %.2f times\n", alone * 1e-3, beside * 1e-3,
           static_cast<double>(beside) / static_cast<double>(alone));
    EXPECT_LE(beside, 3 * alone);
    EXPECT_FALSE(busy.all_complete(huge_)) << "the huge one was over first: nothing was shown";
    EXPECT_NE(busy.run_timed(huge_), 0u);
}

// Nor the other way round: small ones that follow each other without a pause leave the huge one its share.
TEST_P(Fairness, HugeIsNotStarvedBySmall) {
    constexpr uint64_t kSmallOnes = 6;
    Cluster cluster(shape());
    const GroupSlot group = cluster.add_group(small_ranks());
    enter_huge(cluster);
    const uint64_t begin = cluster.bytes_moved;
    uint64_t ns = 0;
    for (uint64_t i = 1; i <= kSmallOnes; ++i) ns += small(cluster, group, i);
    ASSERT_FALSE(cluster.all_complete(huge_));
    const uint64_t members = small_ranks().size();
    const uint64_t of_small = kSmallOnes * members * members * GetParam().small_bytes;
    const uint64_t possible = ns * Cluster::kBytesPerNs * GetParam().ranks_of_node.size();
    EXPECT_GE(cluster.bytes_moved - begin, of_small + possible / 3);
}

// Posted at once, and again: the records that are free then come in another order.
TEST_P(Fairness, EqualOnesAreOverInTurn) {
    constexpr uint64_t kCount = 8;
    Cluster cluster(shape());
    const GroupSlot group = cluster.add_group(small_ranks());
    for (uint64_t round = 0; round < 2; ++round) {
        std::vector<Records> operations(kCount);
        const uint64_t begin = cluster.now_ns();
        for (uint64_t i = 0; i < kCount; ++i)
            enter(cluster, group, small_ranks(), GetParam().small, 16 * GetParam().small_bytes, false,
                  round * kCount + i + 1, &operations[i]);
        std::vector<uint64_t> took;
        for (const Records& records : operations) {
            took.push_back(cluster.run_timed(records) - begin);
            for (const auto& [rank, record] : records) cluster.release(rank, record);
        }
        for (uint64_t i = 0; i < kCount; ++i)
            EXPECT_LE(took[i], took.back() * (i + 2) / kCount) << "operation " << i << " of round " << round;
    }
}

INSTANTIATE_TEST_SUITE_P(
    , Fairness,
    testing::Values(
        FairnessCase{"OneNode64KiB", {8}, Collective::kAlltoall, Collective::kAlltoall, 65536, {}},
        FairnessCase{"OneNode1KiB", {8}, Collective::kAlltoall, Collective::kAlltoall, 1024, {}},
        FairnessCase{
            "OneNodeTwoOfEightRanks", {8}, Collective::kAlltoall, Collective::kAlltoall, 65536, {3, 5}},
        FairnessCase{"OneNodeAllgather", {8}, Collective::kAllgather, Collective::kAllgather, 65536, {}},
        FairnessCase{"TwoNodes64KiB", {8, 8}, Collective::kAlltoall, Collective::kAlltoall, 65536, {}},
        FairnessCase{"TwoNodes1KiB", {8, 8}, Collective::kAlltoall, Collective::kAlltoall, 1024, {}, true},
        FairnessCase{
            "TwoNodesQueueFull", {8, 8}, Collective::kAlltoall, Collective::kAlltoall, 65536, {}, false, 64},
        FairnessCase{"TwoNodesAllgatherBesideAlltoall",
                     {8, 8},
                     Collective::kAlltoall,
                     Collective::kAllgather,
                     65536,
                     {}},
        FairnessCase{"TwoNodesAlltoallBesideAllgather",
                     {8, 8},
                     Collective::kAllgather,
                     Collective::kAlltoall,
                     65536,
                     {}}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace longshore
