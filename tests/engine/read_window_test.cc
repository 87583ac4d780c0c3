// The window of reads on links and cores of all kinds: the link stays busy, and no more waits than that
// takes.
#include "engine/read_window.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/prng.h"

namespace longshore::test {
namespace {

constexpr uint64_t kChunk = 256 * 1024;

struct Path {
    double bytes_per_ns;
    uint64_t delay_ns;  // one way
    uint64_t
        core_wait_ns;  // of a service process, each time that it wants to run; drawn between half and twice
};

struct Outcome {
    double busy;           // share of the time in which the link carried something
    uint64_t window_mean;  // bytes
};

// A source that answers requests in order, a link, and a destination that takes what has come and asks for
// more, each whenever it gets its core. The kernels' buffers hold whatever is under way.
class Model {
  public:
    Model(const Path& path, uint64_t seed) : path_(path), random_(seed) {}

    void set_path(const Path& path) { path_ = path; }
    ReadWindow& window() { return window_; }

    Outcome run(uint64_t ns, bool follows = true) {
        const uint64_t end = now_ + ns, begin = now_;
        const double sent_before = busy_ns_;
        unsigned __int128 sum = 0;
        uint64_t looks = 0;
        while (now_ < end) {
            now_ = std::min(source_at_, destination_at_);
            if (now_ == source_at_) {
                send();
                source_at_ = now_ + wait();
            } else {
                take();
                const uint64_t limit = follows ? window_.bytes() : kFixed;
                while (in_flight_ < limit) ask();
                if (follows) window_.on_core_wait(path_.core_wait_ns, now_);
                sum += limit;
                ++looks;
                destination_at_ = now_ + wait();
            }
        }
        return {(busy_ns_ - sent_before) / static_cast<double>(now_ - begin),
                static_cast<uint64_t>(sum / looks)};
    }

    static constexpr uint64_t kFixed = 4 * kChunk;

  private:
    struct Read {
        uint64_t posted, behind, seen, there;  // at the source not before `seen`
    };
    uint64_t wait() {
        return 20'000 + (path_.core_wait_ns == 0
                             ? 0
                             : random_.between(path_.core_wait_ns / 2, 2 * path_.core_wait_ns));
    }
    void ask() {
        window_.on_post(in_flight_, now_);
        asked_.push_back({now_, in_flight_, now_ + path_.delay_ns, 0});
        in_flight_ += kChunk;
    }
    void send() {
        while (!asked_.empty() && asked_.front().seen <= now_) {
            Read read = asked_.front();
            asked_.pop_front();
            const auto carry_ns = static_cast<double>(kChunk) / path_.bytes_per_ns;
            link_free_ = std::max(link_free_, static_cast<double>(now_)) + carry_ns;
            busy_ns_ += carry_ns;
            read.there = static_cast<uint64_t>(link_free_) + path_.delay_ns;
            coming_.push_back(read);
        }
    }
    void take() {
        while (!coming_.empty() && coming_.front().there <= now_) {
            in_flight_ -= kChunk;
            window_.on_read(kChunk, coming_.front().behind, coming_.front().posted, now_);
            coming_.pop_front();
        }
    }
    Path path_;
    Prng random_;
    ReadWindow window_;
    uint64_t now_ = 1'000'000, source_at_ = now_, destination_at_ = now_, in_flight_ = 0;
    double link_free_ = 0, busy_ns_ = 0;
    std::deque<Read> asked_, coming_;
};

constexpr uint64_t kSecond = 1'000'000'000;

TEST(ReadWindow, KeepsEveryLinkBusy) {
    for (const double gbit : {0.1, 1.0, 2.5, 10.0, 25.0}) {
        for (const uint64_t delay_us : {5u, 200u, 2000u}) {
            for (const uint64_t wait_us : {0u, 300u, 3000u}) {
                const Path path{gbit / 8, delay_us * 1000, wait_us * 1000};
                Model model(path, 1);
                model.run(kSecond);
                const Outcome outcome = model.run(2 * kSecond);
                // No window can be larger than it may.
                const double needed =
                    path.bytes_per_ns * static_cast<double>(2 * path.delay_ns + 4 * path.core_wait_ns);
                if (needed > 60e6) continue;
                EXPECT_GE(outcome.busy, 0.93) << gbit << " Gb/s, " << delay_us << " us, waits " << wait_us;
                EXPECT_LE(static_cast<double>(outcome.window_mean),
                          16.0 * (needed + static_cast<double>(2 * kChunk)))
                    << gbit << " Gb/s, " << delay_us << " us, waits " << wait_us;
            }
        }
    }
}

// What made the link idle before: the same way with a window that does not follow.
TEST(ReadWindow, AFixedOneLeavesALinkIdleWhereServiceProcessesRunLate) {
    Model model({1.0 / 8, 50'000, 4'000'000}, 1);
    EXPECT_LT(model.run(3 * kSecond, false).busy, 0.85);
    Model other({1.0 / 8, 50'000, 4'000'000}, 1);
    other.run(kSecond);
    EXPECT_GE(other.run(2 * kSecond).busy, 0.95);
}

TEST(ReadWindow, FollowsALinkThatBecomesFasterOrSlower) {
    Model model({1.0 / 8, 50'000, 3'000'000}, 1);
    const uint64_t slow = model.run(2 * kSecond).window_mean;
    model.set_path({10.0 / 8, 50'000, 3'000'000});
    model.run(kSecond);
    const Outcome fast = model.run(2 * kSecond);
    EXPECT_GE(fast.busy, 0.93);
    EXPECT_GE(fast.window_mean, 3 * slow);
    model.set_path({1.0 / 8, 50'000, 3'000'000});
    model.run(2 * kSecond);
    EXPECT_LE(model.run(2 * kSecond).window_mean, 2 * slow);
}

TEST(ReadWindow, FollowsRanksThatComputeAndThatDoNot) {
    Model model({5.0 / 8, 20'000, 5'000'000}, 1);
    model.run(kSecond);
    const uint64_t computing = model.run(2 * kSecond).window_mean;
    model.set_path({5.0 / 8, 20'000, 0});
    model.run(2 * kSecond);
    EXPECT_LE(model.run(2 * kSecond).window_mean, computing / 2);
}

// One read of 4 KiB at a time, as LONGSHORE_SERVICE_READS_MAX=1 and LONGSHORE_CHUNK_BYTES=4K have it.
TEST(ReadWindow, IsNoLargerThanAFewSmallReads) {
    ReadWindow window({.bytes_max = 4096});
    EXPECT_EQ(window.bytes(), 4096u);
    window.on_post(0, 0);
    window.on_read(1u << 30, 0, 0, 30'000'000);
    EXPECT_EQ(window.bytes(), 4096u);
}

TEST(ReadWindow, StaysWithinItsLimits) {
    ReadWindow window({.bytes_min = 1000, .bytes_max = 5000, .bytes_begin = 2000});
    EXPECT_EQ(window.bytes(), 2000u);
    window.on_core_wait(UINT64_MAX / 8, 1);
    EXPECT_EQ(window.bytes(), 2000u);
    uint64_t now = 0;
    for (int i = 0; i < 100; ++i) {
        window.on_post(0, now);
        now += 30'000'000;
        window.on_read(1u << 30, 0, now - 30'000'000, now);
    }
    EXPECT_EQ(window.bytes(), 5000u);
    for (int i = 0; i < 2000; ++i) {
        window.on_core_wait(0, now);
        window.on_post(0, now);
        now += 30'000'000;
        window.on_read(1, 0, now - 1, now);
    }
    EXPECT_EQ(window.bytes(), 1000u);
}

}  // namespace
}  // namespace longshore::test
