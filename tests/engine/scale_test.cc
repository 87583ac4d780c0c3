// How many control messages an operation takes, between nodes whose ranks enter together: in proportion to
// the nodes, whatever the ranks. The counts are exact; what is larger must not be.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <set>
#include <vector>

#include "cluster.h"

namespace longshore {
namespace {

struct ScaleCase {
    const char* name;
    uint32_t nodes, ranks, services;  // ranks and services of each node
    Collective collective;
    uint64_t sent, received;  // by the service process that sends, or gets, most
};

void PrintTo(const ScaleCase& c, std::ostream* out) {
    *out << c.name;
}

class Scale : public testing::TestWithParam<ScaleCase> {
  protected:
    static Cluster::Shape shape() {
        Cluster::Shape s;
        s.ranks_of_node.assign(GetParam().nodes, GetParam().ranks);
        s.services = GetParam().services;
        s.chunk_bytes = kBlock;
        s.cooperative = false;
        s.move_bytes = false;
        s.service_limits.help_bytes = 0;
        return s;
    }
    void SetUp() override {
        for (uint32_t r = 0; r < cluster_.size(); ++r)
            regions_.push_back(cluster_.add_region(r, memory_.get(), 2 * kBlock * cluster_.size()));
    }
    // All ranks enter, then service processes begin.
    void run(uint64_t sequence) {
        std::vector<std::pair<uint32_t, RecordId>> records;
        const uint32_t size = cluster_.size();
        std::vector<std::vector<BlockSpan>> spans;
        for (uint32_t r = 0; r < size; ++r) {
            OperationArguments a;
            a.sequence = sequence;
            a.collective = GetParam().collective;
            a.send = a.recv = regions_[r];
            a.send_block_bytes = a.recv_block_bytes = kBlock;
            if (rules_of(a.collective).by_vector) {
                std::vector<BlockSpan> send(size), recv(size);
                for (uint32_t i = 0; i < size; ++i) {
                    send[i] = {uint64_t{i} * 2 * kBlock, 1 + (r + i) % kBlock};
                    recv[i] = {uint64_t{i} * 2 * kBlock, 1 + (r + i) % kBlock};
                }
                spans.push_back(std::move(send));
                a.send_blocks = spans.back().data();
                spans.push_back(std::move(recv));
                a.recv_blocks = spans.back().data();
            }
            RecordId record;
            ASSERT_EQ(cluster_.post(r, a, &record), PostResult::kPosted);
            records.emplace_back(r, record);
        }
        ASSERT_TRUE(cluster_.run(records, 10'000'000));
        for (const auto& [rank, record] : records) cluster_.release(rank, record);
        ASSERT_TRUE(cluster_.run({}, 10'000'000));
    }
    static uint64_t most(const std::map<ServiceAddress, uint64_t>& counts) {
        uint64_t most = 0;
        for (const auto& [address, count] : counts) most = std::max(most, count);
        return most;
    }

    static constexpr uint64_t kBlock = 2000;
    Cluster cluster_{shape()};
    std::unique_ptr<uint8_t[]> memory_{new uint8_t[2 * kBlock * 1024]};
    std::vector<MemoryRef> regions_;
};

TEST_P(Scale, ControlMessagesGrowWithTheNodes) {
    const ScaleCase& c = GetParam();
    for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
        cluster_.control_sent.clear();
        cluster_.control_received.clear();
        run(sequence);
        const uint64_t sent = most(cluster_.control_sent), received = most(cluster_.control_received);
        EXPECT_LE(sent + received, 4 * c.nodes * c.services + c.ranks);
        if (sequence == 1) continue;  // the second is as any later one
        EXPECT_EQ(sent, c.sent);
        EXPECT_EQ(received, c.received);
    }
}

constexpr auto kAll = Collective::kAlltoall, kAllv = Collective::kAlltoallv, kGather = Collective::kAllgather;
INSTANTIATE_TEST_SUITE_P(Cases, Scale,
                         testing::Values(ScaleCase{"alltoall_4x4", 4, 4, 1, kAll, 6, 6},
                                         ScaleCase{"alltoall_8x8", 8, 8, 1, kAll, 14, 14},
                                         ScaleCase{"alltoall_16x8", 16, 8, 1, kAll, 30, 30},
                                         ScaleCase{"alltoall_32x4", 32, 4, 1, kAll, 62, 62},
                                         ScaleCase{"alltoall_8x8_2", 8, 8, 2, kAll, 28, 28},
                                         ScaleCase{"alltoall_2x70", 2, 70, 1, kAll, 2, 2},
                                         ScaleCase{"alltoallv_2x70", 2, 70, 1, kAllv, 6, 6},
                                         ScaleCase{"alltoallv_8x8", 8, 8, 1, kAllv, 14, 14},
                                         ScaleCase{"alltoallv_32x4", 32, 4, 1, kAllv, 62, 62},
                                         ScaleCase{"allgather_8x8", 8, 8, 1, kGather, 13, 13},
                                         ScaleCase{"allgather_32x4", 32, 4, 1, kGather, 62, 59}),
                         [](const auto& one) { return std::string(one.param.name); });

// Who is slow then holds up only what it has itself.
TEST(ReadOrder, OfAllNodesInTurn) {
    constexpr uint32_t kNodes = 8, kRanks = 8;
    constexpr uint64_t kBytes = 2000;
    Cluster::Shape shape;
    shape.ranks_of_node.assign(kNodes, kRanks);
    shape.chunk_bytes = kBytes;
    shape.cooperative = shape.move_bytes = false;
    shape.read_turns = 8;
    Cluster cluster(shape);
    std::vector<uint8_t> memory(2 * kBytes * cluster.size());
    std::vector<std::pair<uint32_t, RecordId>> records;
    // The ranks of the first node enter last, when the others have told of all of theirs.
    for (uint32_t r = cluster.size(); r-- != 0;) {
        if (r == kRanks - 1) {
            ASSERT_TRUE(cluster.run({}, 10'000'000));
        }
        OperationArguments a;
        a.sequence = 1;
        a.collective = Collective::kAlltoall;
        a.send = a.recv = cluster.add_region(r, memory.data(), memory.size());
        a.send_block_bytes = a.recv_block_bytes = kBytes;
        RecordId record;
        ASSERT_EQ(cluster.post(r, a, &record), PostResult::kPosted);
        records.emplace_back(r, record);
    }
    cluster.read_from.clear();
    ASSERT_TRUE(cluster.run(records, 10'000'000));
    const std::vector<NodeId>& nodes = cluster.read_from[{NodeId{0}, ServiceId{0}}];
    ASSERT_EQ(nodes.size(), (kNodes - 1) * kRanks * kRanks);
    for (size_t i = 0; i < nodes.size(); i += kNodes - 1) {
        const std::set<NodeId> round(nodes.begin() + i, nodes.begin() + i + kNodes - 1);
        EXPECT_EQ(round.size(), kNodes - 1) << "from read " << i;
    }
}

}  // namespace
}  // namespace longshore
