// Two service processes of a node, and work for the ranks of one of them alone: the other takes of it, and
// every byte is moved once.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "cluster.h"

namespace longshore {
namespace {

struct BalanceCase {
    const char* name;
    std::vector<uint32_t> ranks_of_node;
    std::vector<uint32_t> busy;  // ranks that enter the operation: all served by service process 0
    Collective collective;
};
void PrintTo(const BalanceCase& c, std::ostream* out) {
    *out << c.name;
}

class Balance : public testing::TestWithParam<BalanceCase> {
  protected:
    static constexpr uint64_t kBlock = 1000 * 1000;

    struct Outcome {
        uint64_t ns = 0, bytes_between_nodes = 0, taken = 0, taken_reads = 0, moves = 0;
    };

    static Outcome run(uint32_t help_bytes) {
        Cluster::Shape shape;
        shape.ranks_of_node = GetParam().ranks_of_node;
        shape.services = 2;
        shape.chunk_bytes = 64 * 1024;
        shape.service_limits.watches_max = 64;
        shape.service_limits.help_bytes = help_bytes;
        Cluster cluster(shape);
        const std::vector<uint32_t>& ranks = GetParam().busy;
        const GroupSlot group = cluster.add_group(ranks);
        const size_t size = ranks.size();
        std::vector<std::vector<uint8_t>> send(size), recv(size);
        std::vector<std::pair<uint32_t, RecordId>> records;
        const bool shared = is_shared(GetParam().collective);
        for (uint32_t m = 0; m < size; ++m) {
            send[m].resize(shared ? kBlock : kBlock * size);
            recv[m].resize(kBlock * size);
            for (size_t i = 0; i < send[m].size(); ++i) send[m][i] = byte_of(m, shared ? 0 : i / kBlock, i);
            OperationArguments a;
            a.sequence = 1;
            a.collective = GetParam().collective;
            a.send = cluster.add_region(ranks[m], send[m].data(), send[m].size());
            a.recv = cluster.add_region(ranks[m], recv[m].data(), recv[m].size());
            a.send_block_bytes = a.recv_block_bytes = kBlock;
            RecordId record;
            EXPECT_EQ(cluster.post_in(group, m, a, &record), PostResult::kPosted);
            records.emplace_back(ranks[m], record);
        }
        Outcome out;
        out.ns = cluster.run_timed(records);
        EXPECT_NE(out.ns, 0u);
        for (uint32_t m = 0; m < size; ++m)
            for (size_t i = 0; i < recv[m].size(); ++i)
                if (recv[m][i] != byte_of(static_cast<uint32_t>(i / kBlock), shared ? 0 : m,
                                          i % kBlock + (shared ? 0 : m * kBlock))) {
                    ADD_FAILURE() << "member " << m << " byte " << i;
                    break;
                }
        for (const auto& [rank, record] : records) cluster.release(rank, record);
        EXPECT_TRUE(cluster.run({}));
        EXPECT_TRUE(cluster.clean());
        for (uint32_t n = 0; n < shape.ranks_of_node.size(); ++n) {
            const ServiceCounters& idle = cluster.service(n, 1).counters();
            out.taken += idle.taken;
            out.taken_reads += idle.taken_reads;
            EXPECT_EQ(cluster.service(n, 0).counters().taken, 0u);
            for (uint32_t s = 0; s < 2; ++s) {
                const ServiceCounters& c = cluster.service(n, s).counters();
                out.moves += c.copies + c.reads;
            }
        }
        out.bytes_between_nodes = cluster.bytes_between_nodes;
        return out;
    }

  private:
    static uint8_t byte_of(uint32_t source, uint64_t destination, uint64_t at) {
        return static_cast<uint8_t>(source * 31 + destination * 7 + at * 5 + (at >> 8));
    }
};

TEST_P(Balance, IdleServiceProcessTakesWork) {
    const Outcome alone = run(0), together = run(512 * 1024);
    printf("  alone %.0f us, with help %.0f us; %lu of %lu moves taken, %lu of them reads\n",
           static_cast<double>(alone.ns) * 1e-3, static_cast<double>(together.ns) * 1e-3, together.taken,
           together.moves, together.taken_reads);
    EXPECT_EQ(alone.taken, 0u);
    EXPECT_GT(together.taken, 0u);
    EXPECT_LE(together.ns, alone.ns * 8 / 10);
    // Taken, not done again.
    EXPECT_EQ(together.bytes_between_nodes, alone.bytes_between_nodes);
    EXPECT_EQ(together.moves, alone.moves);
}

INSTANTIATE_TEST_SUITE_P(
    , Balance,
    testing::Values(BalanceCase{"Copies", {8}, {0, 2, 4, 6}, Collective::kAlltoall},
                    BalanceCase{"Reads", {4, 4}, {0, 2, 4, 6}, Collective::kAlltoall},
                    BalanceCase{"SharedReads", {4, 4}, {0, 2, 4, 6}, Collective::kAllgather},
                    BalanceCase{"ManyReads", {8, 8}, {0, 2, 4, 6, 8, 10, 12, 14}, Collective::kAlltoall}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace longshore
