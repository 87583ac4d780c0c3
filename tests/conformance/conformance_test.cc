// The contracts of a fabric (fabric/fabric.h), a case each, on every fabric.
#include <dlfcn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "base/prng.h"
#include "fabric_world.h"

// What this thread's polls have asked the kernel for. How long they then take is the affair of whoever else
// wants the cores.
static thread_local struct KernelWaits {
    uint64_t asked_ns;   // in all
    uint64_t timed_out;  // so many
    bool for_a_wake_up;  // Asked for is a minute whatever the fabric says: what ends a wait is a wake-up, or
                         // it is lost.
} waits;

// The two calls by which fabrics wait, as the program finds them before those of the C library.
namespace {

template <class Function>
Function* of_the_library(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <class Wait>
long wait_and_note(uint64_t ns, Wait wait) {
    if (ns == 0) return wait(uint64_t{0});
    const long ready = wait(
        waits.for_a_wake_up ? uint64_t(std::chrono::nanoseconds(longshore::test::in_time()).count()) : ns);
    if (ready < 0) return ready;  // no such call
    waits.asked_ns += std::min(ns, std::numeric_limits<uint64_t>::max() - waits.asked_ns);
    waits.timed_out += ready == 0;
    return ready;
}

}  // namespace

extern "C" __attribute__((no_sanitize_address)) long syscall(long number, ...) noexcept {
    static constinit std::atomic<long (*)(long, ...)> library{};
    if (!library) library = of_the_library<long(long, ...)>("syscall");
    long a[6];
    va_list list;
    va_start(list, number);
    for (long& one : a) one = va_arg(list, long);
    va_end(list);
    const auto call = [&](long timeout) {
        return library.load()(number, a[0], a[1], a[2], timeout, a[4], a[5]);
    };
    const auto* told = reinterpret_cast<const timespec*>(a[3]);
    if (number != SYS_epoll_pwait2 || !told) return call(a[3]);
    return wait_and_note(uint64_t(told->tv_sec) * 1'000'000'000 + uint64_t(told->tv_nsec), [&](uint64_t ns) {
        const timespec timeout{time_t(ns / 1'000'000'000), long(ns % 1'000'000'000)};
        return call(reinterpret_cast<long>(&timeout));
    });
}

extern "C" int epoll_wait(int epoll, epoll_event* events, int count, int timeout_ms) {
    static constinit std::atomic<int (*)(int, epoll_event*, int, int)> library{};
    if (!library) library = of_the_library<int(int, epoll_event*, int, int)>("epoll_wait");
    if (timeout_ms < 0) return library.load()(epoll, events, count, timeout_ms);
    return int(wait_and_note(uint64_t(timeout_ms) * 1'000'000, [&](uint64_t ns) {
        return long(library.load()(epoll, events, count, int(ns / 1'000'000)));
    }));
}

namespace longshore::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}},
    kLocal{NodeId{0}, ServiceId{1}};
constexpr NodeId kNode0{0}, kNode1{1};
constexpr LocalRank kRank0{0}, kRank1{1};
constexpr RegionId kUser = FabricWorld::kUserRegion;

class Contract : public testing::TestWithParam<NamedWorld> {
  protected:
    void SetUp() override { world_ = GetParam().make(); }
    // Polls all given members until `done`. False: not in time.
    template <class Done>
    bool poll_until(std::initializer_list<ServiceAddress> members,
                    const std::function<void(ServiceAddress, const FabricEvent&)>& on, const Done& done) {
        const auto end = Clock::now() + in_time();
        while (!done()) {
            if (Clock::now() > end) return false;
            for (const ServiceAddress member : members) {
                FabricEvent events[8];
                const size_t count = world_->fabric(member).poll(events, 0);
                for (size_t i = 0; i < count; ++i) on(member, events[i]);
            }
        }
        return true;
    }
    // The result of the one event that ends `id`.
    FabricEvent finish(ServiceAddress member, uint64_t id) {
        FabricEvent out;
        int seen = 0;
        const ServiceAddress other = world_->reads_need_turns() && member == kA ? kB : member;
        poll_until(
            {member, other},
            [&](ServiceAddress at, const FabricEvent& e) {
                if (at == member && e.kind != FabricEvent::Kind::kMessage && e.id == id) out = e, ++seen;
            },
            [&] { return seen > 0; });
        FabricEvent events[8];
        for (int i = 0; i < 10; ++i) EXPECT_EQ(world_->fabric(member).poll(events, 0), 0u);
        EXPECT_EQ(seen, 1);
        return out;
    }
    // Bytes from one rank of node 0 to the other, or from a region of B's node, as this fabric does it: at
    // once, or in pieces through member A's staging memory. The first result that is not kMoved ends it.
    MoveResult copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes) {
        return transfer(
            to, bytes, world_->staging_only(), [&](const MemoryRef& at, uint64_t done, uint64_t piece) {
                return world_->fabric(kA).copy({from.rank, from.region, from.offset + done}, at, piece, kId);
            });
    }
    MoveResult read(const RegionName& from, uint64_t offset, const MemoryRef& to, uint64_t bytes) {
        return read(from, offset, to, bytes, world_->staging_only());
    }
    MoveResult read(const RegionName& from, uint64_t offset, const MemoryRef& to, uint64_t bytes,
                    bool staged) {
        return transfer(to, bytes, staged, [&](const MemoryRef& at, uint64_t done, uint64_t piece) {
            return world_->fabric(kA).read(kB, from, offset + done, at, piece, kId);
        });
    }
    std::unique_ptr<FabricWorld> world_;

  private:
    static constexpr uint64_t kId = 4711;
    template <class Fetch>
    MoveResult transfer(const MemoryRef& to, uint64_t bytes, bool staged, const Fetch& fetch) {
        if (!staged) {
            EXPECT_EQ(fetch(to, 0, bytes), Post::kAccepted);
            return finish(kA, kId).result;
        }
        const MemoryRef staging{kStaging, RegionId{0}, 0};
        for (uint64_t done = 0;;) {
            const uint64_t piece = std::min(bytes - done, FabricWorld::kStagingBytes);
            EXPECT_EQ(fetch(staging, done, piece), Post::kAccepted);
            const MoveResult fetched = finish(kA, kId).result;
            if (fetched != MoveResult::kMoved) return fetched;
            EXPECT_EQ(world_->fabric(kA).copy(staging, {to.rank, to.region, to.offset + done}, piece, kId),
                      Post::kAccepted);
            const MoveResult delivered = finish(kA, kId).result;
            done += piece;
            if (delivered != MoveResult::kMoved || done == bytes) return delivered;
        }
    }
};

TEST_P(Contract, MessagesArriveOnceInOrderAlsoAfterAgain) {
    for (const ServiceAddress to : {kB, kLocal}) {
        const uint32_t messages = 20'000 / slowness();
        uint32_t sent = 0, got = 0, wrong = 0, again = 0;
        std::vector<std::byte> message(kFrameBytesMax);
        EXPECT_TRUE(poll_until(
            {to, kA},
            [&](ServiceAddress at, const FabricEvent& e) {
                if (e.kind != FabricEvent::Kind::kMessage || !(at == to)) return;
                uint32_t number = 0;
                memcpy(&number, e.message.data(), sizeof number);
                wrong += number != got++ || !(e.peer == kA) || e.message.size() != 4 + number % 4093;
            },
            [&] {
                for (int burst = 0; burst < 100 && sent < messages; ++burst) {
                    memcpy(message.data(), &sent, sizeof sent);
                    if (world_->fabric(kA).send(to, {message.data(), 4 + sent % 4093}) == Post::kAgain) {
                        ++again;
                        break;
                    }
                    ++sent;
                }
                return got == messages;
            }));
        EXPECT_EQ(wrong, 0u);
        EXPECT_GT(again, 0u);
    }
}

TEST_P(Contract, CopyMovesExactlyItsBytesAndEndsOnce) {
    std::byte* from = world_->bytes(kNode0, kRank0);
    std::byte* to = world_->bytes(kNode0, kRank1);
    for (const uint64_t bytes : {0ul, 1ul, 4095ul, 65536ul, 300000ul}) {
        for (uint64_t i = 0; i < FabricWorld::kRegionBytes; ++i)
            from[i] = static_cast<std::byte>(i * 7 + bytes);
        memset(to, 0xee, FabricWorld::kRegionBytes);
        EXPECT_EQ(copy({kRank0, kUser, 11}, {kRank1, kUser, 1000}, bytes), MoveResult::kMoved);
        EXPECT_EQ(memcmp(to + 1000, from + 11, bytes), 0);
        EXPECT_EQ(to[999], std::byte{0xee});
        EXPECT_EQ(to[1000 + bytes], std::byte{0xee});
    }
}

TEST_P(Contract, WriteIsVisibleAtItsTarget) {
    std::vector<std::byte> data(5000, std::byte{0x5a});
    ASSERT_EQ(world_->fabric(kA).write(data, {kRank1, kUser, 77}, 9), Post::kAccepted);
    EXPECT_EQ(finish(kA, 9).result, MoveResult::kMoved);
    EXPECT_EQ(memcmp(world_->bytes(kNode0, kRank1) + 77, data.data(), data.size()), 0);
}

TEST_P(Contract, ReadFromAnotherNode) {
    std::byte* from = world_->bytes(kNode1, kRank1);
    for (uint64_t i = 0; i < FabricWorld::kRegionBytes; ++i) from[i] = static_cast<std::byte>(i * 13);
    const RegionName name = world_->name(kNode1, kRank1);
    for (const uint64_t bytes : {0ul, 200000ul}) {
        EXPECT_EQ(read(name, 100, {kRank0, kUser, 5}, bytes), MoveResult::kMoved);
        EXPECT_EQ(memcmp(world_->bytes(kNode0, kRank0) + 5, from + 100, bytes), 0);
    }
    EXPECT_EQ(read(name, FabricWorld::kRegionBytes, {kRank0, kUser, 5}, 1), MoveResult::kFailed);
}

// What is no region of that node, or not in that use of it any more, makes the read fail; no other does.
TEST_P(Contract, AReadOfARegionThatIsGoneFails) {
    const RegionName good = world_->name(kNode1, kRank1);
    RegionName former = good, none = good, nobody = good, stranger = good;
    former.generation -= 2;
    none.region = RegionId{1u << 30};
    nobody.rank = LocalRank{500};
    stranger.region = RegionId{good.region.value + 1};
    memset(world_->bytes(kNode1, kRank1), 0x5a, 100);
    for (const RegionName& name : {former, none, nobody, stranger, good, former, good}) {
        memset(world_->bytes(kNode0, kRank0), 0x11, 100);
        const MoveResult expected = name == good ? MoveResult::kMoved : MoveResult::kFailed;
        EXPECT_EQ(read(name, 0, {kRank0, kUser, 0}, 100), expected);
        EXPECT_EQ(world_->bytes(kNode0, kRank0)[50], name == good ? std::byte{0x5a} : std::byte{0x11});
    }
}

// Reads that are posted at once, of regions that nothing is known of yet: each ends once.
TEST_P(Contract, ManyReadsAtOnceOfSeveralRegionsEndOnce) {
    constexpr uint64_t kReads = 40, kEach = 100;
    const RegionName good[] = {world_->name(kNode1, kRank0), world_->name(kNode1, kRank1)};
    RegionName gone = good[0];
    gone.generation += 2;
    for (const LocalRank rank : {kRank0, kRank1})
        memset(world_->bytes(kNode1, rank), 0x40 + rank.value, kEach);
    std::map<uint64_t, uint32_t> ended;
    uint64_t posted = 0;
    EXPECT_TRUE(poll_until(
        {kA, kB},
        [&](ServiceAddress at, const FabricEvent& e) {
            if (!(at == kA) || e.kind != FabricEvent::Kind::kMoved) return;
            ++ended[e.id];
            EXPECT_EQ(e.result, e.id % 3 == 2 ? MoveResult::kFailed : MoveResult::kMoved) << e.id;
        },
        [&] {
            for (; posted < kReads; ++posted) {
                const RegionName& name = posted % 3 == 2 ? gone : good[posted % 3];
                const MemoryRef to{kStaging, RegionId{0}, posted * kEach};
                if (world_->fabric(kA).read(kB, name, 0, to, kEach, posted) == Post::kAgain) break;
            }
            return ended.size() == kReads;
        }));
    FabricEvent events[8];
    for (int i = 0; i < 10; ++i) EXPECT_EQ(world_->fabric(kA).poll(events, 0), 0u);
    for (uint64_t id = 0; id < kReads; ++id) EXPECT_EQ(ended[id], 1u) << id;
    for (uint64_t id = 0; id < kReads; ++id) {
        if (id % 3 == 2) continue;
        ASSERT_EQ(world_->fabric(kA).copy({kStaging, RegionId{0}, id * kEach}, {kRank0, kUser, 0}, kEach, id),
                  Post::kAccepted);
        EXPECT_EQ(finish(kA, id).result, MoveResult::kMoved);
        EXPECT_EQ(world_->bytes(kNode0, kRank0)[kEach - 1], std::byte(0x40 + id % 3)) << id;
    }
}

TEST_P(Contract, NothingOutsideARegionIsTouched) {
    constexpr uint64_t kEnd = FabricWorld::kRegionBytes;
    const MemoryRef good{kRank1, kUser, 0};
    const std::pair<MemoryRef, uint64_t> bad[] = {
        {{kRank0, kUser, kEnd - 3}, 4},       {{kRank0, kUser, ~uint64_t{0} - 1}, 4},
        {{kRank0, kUser, 0}, ~uint64_t{0}},   {{kRank0, RegionId{2}, 0}, 4},
        {{kRank0, RegionId{1u << 30}, 0}, 4}, {{LocalRank{500}, kUser, 0}, 4}};
    for (const auto& [ref, bytes] : bad) {
        EXPECT_EQ(copy(ref, good, bytes), MoveResult::kFailed);
        EXPECT_EQ(copy(good, ref, bytes), MoveResult::kFailed);
    }
}

TEST_P(Contract, StagingMemoryOfAnotherNodeIsReadAsARegion) {
    memset(world_->bytes(kB.node, kRank0), 0x5a, 1000);
    ASSERT_EQ(world_->fabric(kB).copy({kRank0, kUser, 0}, {kStaging, RegionId{0}, 100}, 1000, 1),
              Post::kAccepted);
    ASSERT_EQ(finish(kB, 1).result, MoveResult::kMoved);
    const RegionName staging{kStaging, RegionId{kB.service.value}, 1};
    memset(world_->bytes(kA.node, kRank1), 0x11, 1001);
    const bool staged = world_->from_staging_to_staging_only();
    EXPECT_EQ(read(staging, 100, {kRank1, kUser, 0}, 1000, staged), MoveResult::kMoved);
    EXPECT_EQ(world_->bytes(kA.node, kRank1)[0], std::byte{0x5a});
    EXPECT_EQ(world_->bytes(kA.node, kRank1)[999], std::byte{0x5a});
    EXPECT_EQ(world_->bytes(kA.node, kRank1)[1000], std::byte{0x11});
    EXPECT_EQ(read(staging, FabricWorld::kStagingBytes - 3, {kRank1, kUser, 0}, 4, staged),
              MoveResult::kFailed);
    const RegionName successor{kStaging, RegionId{kB.service.value}, 2};
    EXPECT_EQ(read(successor, 100, {kRank1, kUser, 0}, 4, staged), MoveResult::kFailed);
}

TEST_P(Contract, StagingMemoryHasItsBounds) {
    constexpr uint64_t kEnd = FabricWorld::kStagingBytes;
    Fabric& fabric = world_->fabric(kA);
    uint64_t id = 1;
    const std::pair<uint64_t, uint64_t> cases[] = {{0, kEnd},     {kEnd - 1, 1},         {kEnd, 1},
                                                   {kEnd - 3, 4}, {~uint64_t{0} - 1, 4}, {1, ~uint64_t{0}}};
    for (const auto& [offset, bytes] : cases) {
        const bool inside = offset < kEnd && bytes <= kEnd - offset;
        const MoveResult expected = inside ? MoveResult::kMoved : MoveResult::kFailed;
        const MemoryRef staging{kStaging, RegionId{0}, offset}, rank{kRank0, kUser, 0};
        ASSERT_EQ(fabric.copy(rank, staging, bytes, id), Post::kAccepted);
        EXPECT_EQ(finish(kA, id++).result, expected) << offset;
        ASSERT_EQ(fabric.copy(staging, rank, bytes, id), Post::kAccepted);
        EXPECT_EQ(finish(kA, id++).result, expected) << offset;
    }
}

// What may not be done is refused, and moves nothing.
TEST_P(Contract, NothingGoesAroundTheStagingMemory) {
    if (!world_->staging_only()) GTEST_SKIP() << "this fabric may move bytes from rank to rank";
    memset(world_->bytes(kNode0, kRank0), 0x11, 100);
    memset(world_->bytes(kNode0, kRank1), 0x22, 100);
    ASSERT_EQ(world_->fabric(kA).copy({kRank0, kUser, 0}, {kRank1, kUser, 0}, 100, 1), Post::kAccepted);
    EXPECT_EQ(finish(kA, 1).result, MoveResult::kFailed);
    const RegionName name = world_->name(kNode1, kRank1);
    ASSERT_EQ(world_->fabric(kA).read(kB, name, 0, {kRank1, kUser, 0}, 100, 3), Post::kAccepted);
    EXPECT_EQ(finish(kA, 3).result, MoveResult::kFailed);
    EXPECT_EQ(world_->bytes(kNode0, kRank1)[50], std::byte{0x22});
}

// Whether a fabric sends blocks along or does not, they are read in parts as if nothing had been said.
TEST_P(Contract, ABlockThatIsSentAlongIsRead) {
    if (world_->staging_only()) GTEST_SKIP() << "what is staged is not sent along";
    constexpr uint64_t kBytes = 200'000, kAt = 1000;
    std::byte* const from = world_->bytes(kNode1, kRank1);
    std::byte* const to = world_->bytes(kNode0, kRank0);
    for (uint64_t i = 0; i < kBytes; ++i) from[kAt + i] = static_cast<std::byte>(i * 7 / 3);
    const BlockName block{{GroupId{7}, 3}, Rank{2}, 1};
    const RegionName name = world_->name(kNode1, kRank1);
    for (uint64_t round = 0; round < 3; ++round) {
        memset(to, 0xee, FabricWorld::kRegionBytes);
        if (round != 0) {
            world_->fabric(kB).send_along(kA, block, world_->name(kNode1, kRank1), kAt, kBytes);
            bool sent = false, told = false;
            EXPECT_TRUE(poll_until(
                {kA, kB},
                [&](ServiceAddress, const FabricEvent& e) { told |= e.kind == FabricEvent::Kind::kMessage; },
                [&] {
                    const auto message = std::as_bytes(std::span("told"));
                    sent = sent || world_->fabric(kB).send(kA, message) == Post::kAccepted;
                    return told;
                }));
        }
        for (const auto& [begin, end] :
             {std::pair{0ul, 70'001ul}, {70'001ul, 70'002ul}, {70'002ul, kBytes}}) {
            const AlongPart part{block, begin};
            ASSERT_EQ(world_->fabric(kA).read(kB, name, kAt + begin, {kRank0, kUser, 10 + begin}, end - begin,
                                              1, &part),
                      Post::kAccepted);
            ASSERT_EQ(finish(kA, 1).result, MoveResult::kMoved);
        }
        EXPECT_EQ(memcmp(to + 10, from + kAt, kBytes), 0) << round;
        EXPECT_EQ(to[9], std::byte{0xee});
        EXPECT_EQ(to[10 + kBytes], std::byte{0xee});
    }
}

// Every kind of move, between every kind of region: where ranks' memory is inaccessible to a service process,
// none of it goes through a mapping.
TEST_P(Contract, BytesGoTheWayTheyMay) {
    if (!world_->moved(kA)) GTEST_SKIP() << "this fabric does not count how bytes go";
    if (world_->staging_only())
        GTEST_SKIP() << "bytes go in two steps, see NothingGoesAroundTheStagingMemory";
    constexpr uint64_t kBytes = 3000;
    uint64_t id = 1;
    uint64_t bytes = 0;
    const auto end = [&](Post post) {
        ASSERT_EQ(post, Post::kAccepted);
        EXPECT_EQ(finish(kA, id++).result, MoveResult::kMoved);
        bytes += kBytes;
    };
    Fabric& fabric = world_->fabric(kA);
    for (const RegionId from : {kArenaRegion, kUser})
        for (const RegionId to : {kArenaRegion, kUser})
            end(fabric.copy({kRank0, from, 64}, {kRank1, to, 5000}, kBytes, id));
    const std::vector<std::byte> data(kBytes, std::byte{0x3c});
    for (const RegionId to : {kArenaRegion, kUser}) end(fabric.write(data, {kRank1, to, 9000}, id));
    const RegionName name = world_->name(kNode1, kRank1);
    for (const RegionId to : {kArenaRegion, kUser})
        end(fabric.read(kB, name, 100, {kRank0, to, 20000}, kBytes, id));

    const auto moved = *world_->moved(kA);
    EXPECT_EQ(moved.bytes_mapped + moved.bytes_otherwise, bytes);
    if (moved.mapping_allowed) {
        EXPECT_GE(moved.bytes_mapped, kBytes);  // between arenas, at least: the counter counts
    } else {
        EXPECT_EQ(moved.bytes_mapped, 0u);
    }
}

TEST_P(Contract, PollWaitsNoLongerThanTold) {
    FabricEvent events[4];
    world_->fabric(kA).poll(events, 0);
    for (const uint64_t told_ns : {1'000'000ul, 20'000'000ul}) {
        waits = {};
        const uint64_t begin = world_->now_ns();
        world_->fabric(kA).poll(events, told_ns);
        const uint64_t took_ns = world_->now_ns() - begin;
        EXPECT_GT(took_ns, told_ns / 10 * 9);
        // The simulator's clock goes on while somebody waits, and at no other time.
        EXPECT_LE(world_->has_threads() ? waits.asked_ns : took_ns, told_ns);
        EXPECT_EQ(waits.timed_out, world_->has_threads() ? 1u : 0u)
            << "it is not known how this fabric waits";
    }
}

TEST_P(Contract, LostPeerIsToldOnceAndPostsStillEnd) {
    std::byte byte{};
    bool arrived = false;
    while (world_->fabric(kA).send(kB, {&byte, 1}) == Post::kAgain) {
        FabricEvent events[4];
        world_->fabric(kA).poll(events, 0);
        world_->fabric(kB).poll(events, 0);
    }
    poll_until(
        {kA, kB}, [&](ServiceAddress, const FabricEvent&) { arrived = true; }, [&] { return arrived; });
    EXPECT_TRUE(arrived);
    world_->lose(kB);
    int lost = 0;
    EXPECT_TRUE(poll_until(
        {kA},
        [&](ServiceAddress, const FabricEvent& e) {
            lost += e.kind == FabricEvent::Kind::kPeerLost && e.peer == kB;
        },
        [&] { return lost > 0; }));
    EXPECT_EQ(world_->fabric(kA).send(kB, {&byte, 1}), Post::kAccepted);
    const auto end = Clock::now() + std::chrono::milliseconds(300);
    poll_until(
        {kA}, [&](ServiceAddress, const FabricEvent& e) { lost += e.kind == FabricEvent::Kind::kPeerLost; },
        [&] { return Clock::now() > end; });
    EXPECT_EQ(lost, 1);
}

// A ringer and a sleeper: every ring is noticed, however they fall.
TEST_P(Contract, NoWakeUpIsLostInManyRings) {
    if (!world_->has_threads()) GTEST_SKIP() << "one thread; sleepers are the simulator's actors";
    if (world_->staging_only()) GTEST_SKIP() << "doorbells know nothing of staging";
    // A million are half a minute where other processes want the cores, too.
    const uint32_t rings = (getenv("LONGSHORE_INTERNAL_TEST_ALL") ? 1'000'000 : 100'000) / slowness();
    const NodeMemory memory = world_->memory(kNode0);
    std::atomic<uint32_t> asked{0}, answered{0}, looked{0};
    std::thread ringer([&] {
        Prng prng(5);
        for (uint32_t i = 1; i <= rings && answered.load() < rings; ++i) {
            asked.store(i, std::memory_order_relaxed);
            WakeSet wake;
            memory.ring_service(kA.service, &wake);
            if (wake.any()) world_->fabric(kLocal).wake(wake);
            while (answered.load(std::memory_order_acquire) < i) {
                looked.fetch_add(1, std::memory_order_relaxed);
                if (prng.chance(10)) std::this_thread::yield();
            }
        }
    });
    uint32_t lost = 0;
    FabricEvent events[4];
    waits = {.asked_ns = 0, .timed_out = 0, .for_a_wake_up = true};
    const auto end = Clock::now() + std::chrono::seconds(60);  // where others keep the cores
    while (lost == 0 && answered.load() < rings && Clock::now() < end) {
        const uint32_t looked_before = looked.load();
        world_->fabric(kA).poll(events, 2'000'000'000);
        // A machine that stood still meanwhile has lost nothing.
        lost += waits.timed_out > 0 && looked.load() - looked_before > 10'000;
        answered.store(asked.load(std::memory_order_acquire), std::memory_order_release);
    }
    waits = {};
    EXPECT_EQ(lost, 0u) << "wake-up " << answered.load() << " of " << rings << " was lost";
    answered.store(rings);
    ringer.join();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Contract, testing::ValuesIn(worlds()),
                         [](const auto& named) { return std::string(named.param.name); });

}  // namespace
}  // namespace longshore::test
