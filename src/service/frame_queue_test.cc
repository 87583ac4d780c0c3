#include "service/frame_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace longshore {
namespace {

ServiceAddress service(uint16_t node, uint16_t of_node) {
    return {NodeId{node}, ServiceId{of_node}};
}

std::vector<std::byte> frame(int number) {
    return {static_cast<std::byte>(number), static_cast<std::byte>(number >> 8)};
}

// A dead node's eight service processes take nothing; the healthy ones behind them are served at once.
TEST(FrameQueue, ADeadNodeHoldsUpNobody) {
    FrameQueue queue;
    for (int number = 0; number < 100; ++number)
        for (uint16_t s = 0; s < 8; ++s) ASSERT_TRUE(queue.push(service(1, s), frame(number)));
    for (int number = 0; number < 3; ++number) ASSERT_TRUE(queue.push(service(2, 0), frame(number)));
    std::vector<std::vector<std::byte>> taken;
    const auto send = [&](ServiceAddress to, const std::vector<std::byte>& bytes) {
        if (to.node.value == 1) return Post::kAgain;
        taken.push_back(bytes);
        return Post::kAccepted;
    };
    EXPECT_TRUE(queue.flush(send));
    EXPECT_EQ(taken, (std::vector{frame(0), frame(1), frame(2)}));
    EXPECT_FALSE(queue.has(service(2, 0)));
    EXPECT_TRUE(queue.has(service(1, 7)));
    EXPECT_FALSE(queue.flush(send));
    for (uint16_t s = 0; s < 8; ++s) queue.drop(service(1, s));
    EXPECT_TRUE(queue.empty());
}

TEST(FrameQueue, TooManyForOneAreRefusedForThatOneAlone) {
    FrameQueue queue;
    for (size_t i = 0; i < FrameQueue::kFramesMax; ++i) ASSERT_TRUE(queue.push(service(1, 0), frame(0)));
    EXPECT_FALSE(queue.push(service(1, 0), frame(0)));
    EXPECT_TRUE(queue.push(service(1, 1), frame(0)));
}

TEST(FrameQueue, KeepsTheOrderOfEachPeer) {
    FrameQueue queue;
    std::map<uint16_t, int> next;
    for (int number = 0; number < 300; ++number)
        queue.push(service(static_cast<uint16_t>(number % 3), 0), frame(number / 3));
    int budget = 0;
    for (int round = 0; !queue.empty(); ++round) {
        ASSERT_LT(round, 1000);
        budget = round % 5;
        queue.flush([&](ServiceAddress to, const std::vector<std::byte>& bytes) {
            if (budget-- <= 0) return Post::kAgain;
            EXPECT_EQ(bytes, frame(next[to.node.value]++));
            return Post::kAccepted;
        });
    }
    for (uint16_t node = 0; node < 3; ++node) EXPECT_EQ(next[node], 100);
}

}  // namespace
}  // namespace longshore
