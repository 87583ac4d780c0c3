// How much a service process has under way where what it asks for takes its time.
#include <gtest/gtest.h>

#include <vector>

#include "cluster.h"

namespace longshore {
namespace {

constexpr uint32_t kCapRanks = 8;
constexpr uint64_t kCapBlock = 200;  // four chunks

// Copies that a service process wants to have made of an alltoall of 256 chunks, before one is finished, and
// in all.
struct Copied {
    uint32_t at_once = 0, all = 0;
};
Copied count_copies(uint32_t reads_max) {
    Cluster::Shape shape;
    shape.ranks_of_node = {kCapRanks};
    shape.service_limits.reads_max = reads_max;
    shape.move_bytes = false;
    Cluster cluster(shape);
    std::vector<std::vector<uint8_t>> send(kCapRanks, std::vector<uint8_t>(kCapRanks * kCapBlock)),
        recv = send;
    std::vector<std::pair<uint32_t, RecordId>> records(kCapRanks);
    for (uint32_t r = 0; r < kCapRanks; ++r) {
        OperationArguments a;
        a.sequence = 1;
        a.send = cluster.add_region(r, send[r].data(), send[r].size());
        a.recv = cluster.add_region(r, recv[r].data(), recv[r].size());
        a.send_block_bytes = a.recv_block_bytes = kCapBlock;
        records[r].first = r;
        EXPECT_EQ(cluster.post(r, a, &records[r].second), PostResult::kPosted);
    }
    ServiceEngine& service = cluster.service(0, 0);
    Copied copied;
    std::vector<Copy> out;
    WakeSet wake;
    const auto take_all = [&] {
        uint32_t taken = 0;
        for (Action a; service.next(&a, &wake); ++taken) {
            EXPECT_EQ(a.kind, Action::Kind::kCopy);
            out.push_back(a.copy);
        }
        copied.all += taken;
        return taken;
    };
    copied.at_once = take_all();
    while (!out.empty()) {
        const Copy last = out.back();
        out.pop_back();
        service.finish_copy(last, MoveResult::kMoved, &wake);
        EXPECT_LE(take_all(), 1u);
    }
    EXPECT_TRUE(cluster.all_complete(records));
    return copied;
}

TEST(Caps, CopiesUnderWayAreAsFewAsReads) {
    const uint32_t all = kCapRanks * kCapRanks * 4;
    for (const uint32_t reads_max : {33u, 64u, 200u}) {
        const Copied copied = count_copies(reads_max);
        EXPECT_EQ(copied.at_once, reads_max);
        EXPECT_EQ(copied.all, all);
    }
    EXPECT_EQ(count_copies(1).at_once, 32u);  // what a driver makes in a turn
}

}  // namespace
}  // namespace longshore
