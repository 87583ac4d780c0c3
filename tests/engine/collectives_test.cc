// Each collective on a few shapes, without faults: right bytes, right number of bytes between nodes, all
// given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cluster.h"

namespace longshore {
namespace {

uint8_t pattern(uint32_t source, uint32_t destination, uint64_t i) {
    return static_cast<uint8_t>(source * 31 + destination * 17 + i * 7 + 1);
}

struct Case {
    std::vector<uint32_t> ranks_of_node;
    uint32_t services;
    bool cooperative;
    bool run_services;
    uint32_t staging_slot_bytes = 0;  // not 0: everything goes through two slots of it
};

TEST(CollectiveRules, AreInTheOrderOfTheirNumbers) {
    const std::pair<Collective, const char*> names[] = {
        {Collective::kAlltoall, "alltoall"},   {Collective::kAlltoallv, "alltoallv"},
        {Collective::kAllgather, "allgather"}, {Collective::kAllgatherv, "allgatherv"},
        {Collective::kBcast, "bcast"},         {Collective::kGather, "gather"},
        {Collective::kGatherv, "gatherv"},     {Collective::kScatter, "scatter"},
        {Collective::kScatterv, "scatterv"}};
    ASSERT_EQ(std::size(names), kCollectives);
    for (const auto& [collective, name] : names) EXPECT_STREQ(rules_of(collective).name, name);
}

class Collectives : public testing::TestWithParam<Case> {
  protected:
    Cluster::Shape shape() const {
        Cluster::Shape s;
        s.ranks_of_node = GetParam().ranks_of_node;
        s.services = GetParam().services;
        s.cooperative = GetParam().cooperative;
        s.run_services = GetParam().run_services;
        s.service_limits.staging_slots = 2;
        s.service_limits.staging_slot_bytes = GetParam().staging_slot_bytes;
        s.service_limits.staging_only = GetParam().staging_slot_bytes != 0;
        if (!s.service_limits.staging_only) s.service_limits.staging_slots = 0;
        return s;
    }
};

TEST_P(Collectives, Alltoall) {
    Cluster c(shape());
    const uint32_t p = c.size();
    const uint64_t block = 150;  // two chunks and a bit
    std::vector<std::vector<uint8_t>> send(p), recv(p);
    std::vector<std::pair<uint32_t, RecordId>> records;
    for (uint32_t r = 0; r < p; ++r) {
        send[r].resize(p * block);
        recv[r].assign(p * block, 0);
        for (uint64_t i = 0; i < p * block; ++i)
            send[r][i] = pattern(r, static_cast<uint32_t>(i / block), i % block);
        OperationArguments a;
        a.sequence = 1;
        a.send = c.add_region(r, send[r].data(), send[r].size());
        a.recv = c.add_region(r, recv[r].data(), recv[r].size());
        a.send_block_bytes = a.recv_block_bytes = block;
        records.emplace_back(r, RecordId{});
        ASSERT_EQ(c.post(r, a, &records.back().second), PostResult::kPosted);
    }
    ASSERT_TRUE(c.run(records));
    for (uint32_t r = 0; r < p; ++r)
        for (uint64_t i = 0; i < p * block; ++i)
            ASSERT_EQ(recv[r][i], pattern(static_cast<uint32_t>(i / block), r, i % block))
                << "rank " << r << " byte " << i;
    for (auto& [r, record] : records) c.release(r, record);
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
    uint64_t remote = 0;
    for (uint32_t n : GetParam().ranks_of_node) remote += uint64_t{n} * (p - n) * block;
    EXPECT_EQ(c.bytes_between_nodes, remote);
}

TEST_P(Collectives, AlltoallvWithZerosEarlyAndLate) {
    Cluster c(shape());
    const uint32_t p = c.size();
    const auto bytes = [](uint32_t s, uint32_t d) { return uint64_t{(s * 5 + d * 3) % 7} * 40; };
    std::vector<std::vector<uint8_t>> send(p), recv(p);
    std::vector<std::vector<BlockSpan>> to(p), from(p);
    std::vector<std::pair<uint32_t, RecordId>> records;
    for (uint32_t r = 0; r < p; ++r) {
        uint64_t s = 0, d = 0;
        for (uint32_t q = 0; q < p; ++q) {
            to[r].push_back({s, bytes(r, q)});
            from[r].push_back({d, bytes(q, r)});
            s += bytes(r, q);
            d += bytes(q, r);
        }
        send[r].resize(s + 1);
        recv[r].assign(d + 1, 0);
        for (uint32_t q = 0; q < p; ++q)
            for (uint64_t i = 0; i < bytes(r, q); ++i) send[r][to[r][q].offset + i] = pattern(r, q, i);
    }
    for (uint32_t r = 0; r < p; ++r) {
        OperationArguments a;
        a.sequence = 1;
        a.collective = Collective::kAlltoallv;
        a.send = c.add_region(r, send[r].data(), send[r].size());
        a.recv = c.add_region(r, recv[r].data(), recv[r].size());
        a.send_blocks = to[r].data();
        a.recv_blocks = from[r].data();
        records.emplace_back(r, RecordId{});
        ASSERT_EQ(c.post(r, a, &records.back().second), PostResult::kPosted);
        if (r + 1 < p) c.run({});  // those who are here move what they can: the rest arrives late
    }
    ASSERT_TRUE(c.run(records));
    for (uint32_t r = 0; r < p; ++r)
        for (uint32_t q = 0; q < p; ++q)
            for (uint64_t i = 0; i < bytes(q, r); ++i)
                ASSERT_EQ(recv[r][from[r][q].offset + i], pattern(q, r, i));
    for (auto& [r, record] : records) c.release(r, record);
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
}

TEST_P(Collectives, AllgatherCrossesToEachNodeOnce) {
    Cluster c(shape());
    const uint32_t p = c.size();
    const uint64_t block = 200;
    std::vector<std::vector<uint8_t>> send(p), recv(p);
    std::vector<std::pair<uint32_t, RecordId>> records;
    for (uint32_t r = p; r-- > 0;) {
        send[r].resize(block);
        recv[r].assign(p * block, 0);
        for (uint64_t i = 0; i < block; ++i) send[r][i] = pattern(r, 0, i);
        OperationArguments a;
        a.sequence = 1;
        a.collective = Collective::kAllgather;
        a.send = c.add_region(r, send[r].data(), send[r].size());
        a.recv = c.add_region(r, recv[r].data(), recv[r].size());
        a.send_block_bytes = a.recv_block_bytes = block;
        records.emplace_back(r, RecordId{});
        ASSERT_EQ(c.post(r, a, &records.back().second), PostResult::kPosted);
        c.run({});
    }
    ASSERT_TRUE(c.run(records));
    for (uint32_t r = 0; r < p; ++r)
        for (uint64_t i = 0; i < p * block; ++i)
            ASSERT_EQ(recv[r][i], pattern(static_cast<uint32_t>(i / block), 0, i % block));
    for (auto& [r, record] : records) c.release(r, record);
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
    EXPECT_EQ(c.bytes_between_nodes, (GetParam().ranks_of_node.size() - 1) * p * block);
}

TEST_P(Collectives, BcastManyInARow) {
    Cluster c(shape());
    const uint32_t p = c.size();
    const uint64_t bytes = 300;
    std::vector<std::vector<uint8_t>> buffer(p);
    std::vector<MemoryRef> region;
    for (uint32_t r = 0; r < p; ++r) {
        buffer[r].resize(bytes);
        region.push_back(c.add_region(r, buffer[r].data(), bytes));
    }
    for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
        const uint32_t root = static_cast<uint32_t>(sequence % p);
        for (uint32_t r = 0; r < p; ++r)
            for (uint64_t i = 0; i < bytes; ++i)
                buffer[r][i] = r == root ? pattern(root, static_cast<uint32_t>(sequence), i) : 0;
        std::vector<std::pair<uint32_t, RecordId>> records;
        for (uint32_t r = 0; r < p; ++r) {
            OperationArguments a;
            a.sequence = sequence;
            a.collective = Collective::kBcast;
            a.root = Rank{root};
            a.send = a.recv = region[r];
            a.send_block_bytes = a.recv_block_bytes = bytes;
            records.emplace_back(r, RecordId{});
            ASSERT_EQ(c.post(r, a, &records.back().second), PostResult::kPosted);
        }
        ASSERT_TRUE(c.run(records));
        for (uint32_t r = 0; r < p; ++r)
            for (uint64_t i = 0; i < bytes; ++i)
                ASSERT_EQ(buffer[r][i], pattern(root, static_cast<uint32_t>(sequence), i))
                    << "operation " << sequence;
        for (auto& [r, record] : records) c.release(r, record);
    }
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
}

// Every rank is the root once. A rank that only sends is done when its block was read; one of another node's
// blocks crosses once, to the root.
TEST_P(Collectives, GatherToEveryRoot) {
    Cluster c(shape());
    const uint32_t p = c.size();
    const uint64_t block = 130;
    std::vector<std::vector<uint8_t>> send(p, std::vector<uint8_t>(block));
    std::vector<uint8_t> recv(p * block);
    std::vector<MemoryRef> from;
    for (uint32_t r = 0; r < p; ++r) {
        for (uint64_t i = 0; i < block; ++i) send[r][i] = pattern(r, 0, i);
        from.push_back(c.add_region(r, send[r].data(), block));
    }
    uint64_t crossing = 0;
    for (uint32_t root = 0; root < p; ++root) {
        std::fill(recv.begin(), recv.end(), uint8_t{0});
        std::vector<std::pair<uint32_t, RecordId>> records;
        for (uint32_t r = p; r-- > 0;) {
            OperationArguments a;
            a.sequence = root + 1;
            a.collective = Collective::kGather;
            a.root = Rank{root};
            a.send = from[r];
            a.send_block_bytes = block;
            if (r == root) {
                a.recv = c.add_region(r, recv.data(), recv.size());
                a.recv_block_bytes = block;
            }
            records.emplace_back(r, RecordId{});
            ASSERT_EQ(c.post(r, a, &records.back().second), PostResult::kPosted);
            c.run({});
        }
        ASSERT_TRUE(c.run(records));
        for (uint64_t i = 0; i < p * block; ++i)
            ASSERT_EQ(recv[i], pattern(static_cast<uint32_t>(i / block), 0, i % block)) << "root " << root;
        for (auto& [r, record] : records) c.release(r, record);
    }
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
    for (uint32_t n : GetParam().ranks_of_node) crossing += uint64_t{n} * (p - n) * block;
    EXPECT_EQ(c.bytes_between_nodes, crossing);
}

// Blocks of different sizes, some empty; the root keeps its own where it is.
TEST_P(Collectives, ScattervInPlaceFromEveryRoot) {
    Cluster c(shape());
    const uint32_t p = c.size();
    const auto bytes = [](uint32_t root, uint32_t r) { return uint64_t{(root + r * 3) % 5} * 50; };
    std::vector<std::vector<uint8_t>> recv(p, std::vector<uint8_t>(250));
    std::vector<MemoryRef> to;
    for (uint32_t r = 0; r < p; ++r) to.push_back(c.add_region(r, recv[r].data(), recv[r].size()));
    for (uint32_t root = 0; root < p; ++root) {
        std::vector<BlockSpan> blocks;
        std::vector<uint8_t> send;
        for (uint32_t r = 0; r < p; ++r) {
            recv[r].assign(recv[r].size(), 0);
            blocks.push_back({send.size(), bytes(root, r)});
            for (uint64_t i = 0; i < bytes(root, r); ++i) send.push_back(pattern(root, r, i));
        }
        send.push_back(0);
        std::vector<std::pair<uint32_t, RecordId>> records;
        for (uint32_t r = 0; r < p; ++r) {
            OperationArguments a;
            a.sequence = root + 1;
            a.collective = Collective::kScatterv;
            a.root = Rank{root};
            a.recv = to[r];
            a.recv_block_bytes = bytes(root, r);
            if (r == root) {
                a.self_in_place = true;
                a.send = c.add_region(r, send.data(), send.size());
                a.send_blocks = blocks.data();
            }
            records.emplace_back(r, RecordId{});
            ASSERT_EQ(c.post(r, a, &records.back().second), PostResult::kPosted);
        }
        ASSERT_TRUE(c.run(records));
        for (uint32_t r = 0; r < p; ++r)
            for (uint64_t i = 0; i < recv[r].size(); ++i)
                ASSERT_EQ(recv[r][i], r != root && i < bytes(root, r) ? pattern(root, r, i) : 0);
        for (auto& [r, record] : records) c.release(r, record);
    }
    EXPECT_TRUE(c.run({}));
    EXPECT_TRUE(c.clean());
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
    std::string name = "nodes";
    for (uint32_t n : info.param.ranks_of_node) name += "_" + std::to_string(n);
    name += "_services_" + std::to_string(info.param.services);
    if (!info.param.cooperative) name += "_services_only";
    if (!info.param.run_services) name += "_ranks_only";
    if (info.param.staging_slot_bytes != 0) name += "_staged";
    return name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Collectives,
                         testing::Values(Case{{1}, 1, true, true}, Case{{4}, 1, true, true},
                                         Case{{4}, 1, false, true}, Case{{5}, 2, true, false},
                                         Case{{1, 1}, 1, true, true}, Case{{2, 2}, 1, false, true},
                                         Case{{3, 1, 4}, 2, true, true}, Case{{4, 4, 4, 4}, 4, false, true},
                                         Case{{4}, 1, false, true, 24}, Case{{3, 1, 4}, 2, true, true, 100}),
                         name_of);

}  // namespace
}  // namespace longshore
