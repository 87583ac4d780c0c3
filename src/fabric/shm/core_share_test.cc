#include "fabric/shm/core_share.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace longshore {
namespace {

constexpr uint64_t kTaken = CoreShare::kTakenNs, kPause = CoreShare::kPauseNs;

TEST(CoreShare, PollingRestsAfterTheCoreWasTakenForLong) {
    CoreShare core;
    EXPECT_TRUE(core.may_poll(1));
    core.came_back(1, kTaken);
    EXPECT_TRUE(core.may_poll(kTaken)) << "an interrupt, or a message";
    core.came_back(1, 1 + kTaken);
    EXPECT_FALSE(core.may_poll(1 + kTaken));
    EXPECT_FALSE(core.may_poll(kTaken + kPause));
    EXPECT_TRUE(core.may_poll(1 + kTaken + kPause));
}

TEST(CoreShare, RestsBecomeLongerWhileTheCoreIsTakenAgainAndAgain) {
    CoreShare core;
    uint64_t now = 1, rest = kPause;
    for (int i = 0; i < 10; ++i) {
        core.came_back(now, now + kTaken);
        now += kTaken + rest;
        EXPECT_FALSE(core.may_poll(now - 1));
        EXPECT_TRUE(core.may_poll(now));
        rest = std::min(2 * rest, CoreShare::kPauseMaxNs);
    }
    now += rest;
    core.came_back(now, now + kTaken);
    EXPECT_TRUE(core.may_poll(now + kTaken + kPause)) << "the last time was long ago";
}

TEST(CoreShare, WhoWorksOnTheCoreEndsThePolling) {
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::atomic<bool> over = false;
    std::thread worker([&] {
        while (!over) {
        }
    });
    CoreShare core;
    const uint64_t end = now_ns() + 60'000'000'000;  // where others keep the core
    uint64_t now = now_ns();
    while (core.may_poll(now) && now < end) {
        core.offer(now);
        now = now_ns();
    }
    EXPECT_FALSE(core.may_poll(now));
    over = true;
    worker.join();
    sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace longshore
