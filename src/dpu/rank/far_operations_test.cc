// What a rank posts to its stand-in on a DPU, which takes a bounded number of everything
// (dpu/session/session.h) and is played here, and what it asks of the agent of its machine, which is, too.
#include "dpu/rank/far_operations.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "dpu/host_agent/agent_control.h"

namespace longshore {
namespace {

constexpr uint64_t kUnit = uint64_t{16} << 20;  // what is opened at once
// Addresses only: nothing is ever there.
std::byte* const kHeap = reinterpret_cast<std::byte*>(uint64_t{1} << 44);

// Opens whatever it is asked for, but perhaps not the first time, and closes what is open.
class PlayedAgent {
  public:
    explicit PlayedAgent(bool refuses_first) : refuses_(refuses_first) {
        make_secret(&name, &token);
        listener_ = listen_at(name);
        serves_ = std::thread([this] { serve(); });
    }
    ~PlayedAgent() {
        ends_ = true;
        serves_.join();
    }
    SocketName name;
    Token token;
    std::atomic<uint32_t> open_max = 0;
    std::atomic<bool> was_told_nonsense = false;

  private:
    void serve() {
        Fd rank;
        std::set<uint32_t> open;
        while (!ends_) {
            pollfd ready{rank ? rank.get() : listener_.get(), POLLIN, 0};
            if (poll(&ready, 1, 10) != 1) continue;
            if (!rank) {
                rank = accept_from(listener_);
                continue;
            }
            alignas(8) std::byte packet[kAgentPacketBytesMax];
            size_t bytes = 0;
            std::vector<Fd> descriptors;
            const Io io = receive_packet(rank, packet, sizeof packet, &bytes, &descriptors);
            if (io == Io::kClosed) return;
            if (io == Io::kAgain) continue;
            AgentHeader header;
            memcpy(&header, packet, sizeof header);
            if (header.kind == AgentKind::kClose) {
                AgentClose close;
                memcpy(&close, packet, sizeof close);
                if (open.erase(close.id) != 1) was_told_nonsense = true;
                continue;
            }
            AgentAnswer answer;
            answer.ok = 1;
            if (header.kind == AgentKind::kOpen) {
                AgentOpen request;
                memcpy(&request, packet, sizeof request);
                answer.id = request.id;
                answer.ok = refuses_ ? 0 : 1;
                refuses_ = false;
                answer.key_bytes = answer.ok != 0 ? 1 : 0;
                if (answer.ok != 0) open.insert(request.id);
                open_max = std::max(open_max.load(), static_cast<uint32_t>(open.size()));
            }
            memcpy(packet, &answer, sizeof answer);
            send_packet(rank, packet, sizeof answer + answer.key_bytes);
        }
    }

    bool refuses_;
    Fd listener_;
    std::atomic<bool> ends_ = false;
    std::thread serves_;
};

class FarOperationsOfARank : public testing::Test {
  protected:
    struct Posted {
        uint32_t operation, region;
    };
    FarOperationsOfARank() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        context_.size = 2;
        context_.options.limit_s = 30;
        context_.options.eager_bytes = 1024;
        context_.options.dpu = "played";
        context_.options.shared.base = kHeap;
        context_.options.shared.bytes = uint64_t{1} << 40;
        connection_.begin(Fd(ends[0]));
        stand_in_ = SessionStream(Fd(ends[1]), 30);
    }
    FarGroup* add_group() {
        static constexpr auto kStart = [](void*, const void* in, void* out, size_t bytes) -> int {
            for (size_t r = 0; r < 2; ++r) memcpy(static_cast<std::byte*>(out) + r * bytes, in, bytes);
            return LS_OK;
        };
        const ls_exchange exchange{nullptr, 0, 2, kStart, [](void*) -> int { return LS_OK; }};
        ls_group* group = nullptr;
        EXPECT_EQ(groups_.start(exchange, &group), LS_OK);
        return static_cast<FarGroup*>(group);
    }
    // A broadcast of this rank's, of its group's next number; that of the other comes to `recv`.
    void start(FarGroup& group, std::byte* recv = nullptr) {
        uint64_t& number = sent_.emplace_back(group.sequence);  // read when it is posted
        ls_arguments a{};
        a.collective = LS_BCAST;
        a.root = recv == nullptr ? 0 : 1;
        a.recv = recv == nullptr ? static_cast<void*>(&number) : recv;
        a.recv_block_bytes = sizeof number;
        ls_operation* operation = nullptr;
        ASSERT_EQ(operations_.start(group, a, &operation), LS_OK);
        open_[static_cast<FarOperation*>(operation)->far_id] = operation;
    }
    // The stand-in hears all that was said to it, and never more than it takes.
    void hear() {
        SessionKind kind{};
        std::span<const std::byte> body;
        for (bool more = true; more;) {
            more = !connection_.stream().flush();
            while (stand_in_.receive(&kind, &body)) {
                more = true;
                SessionGroup group;
                SessionPost post;
                if (kind == SessionKind::kGroupStart && decode(body, &group)) {
                    ASSERT_TRUE(told_.try_emplace(group.id).second);
                    ASSERT_LE(told_.size(), kFarGroupsMax);
                } else if (kind == SessionKind::kGroupFree && decode(body, &group)) {
                    told_.erase(group.id);
                } else if (kind == SessionKind::kPost) {
                    ASSERT_TRUE(decode(body, &post));
                    ASSERT_TRUE(told_.contains(post.group));
                    if (!post.data.empty()) {
                        uint64_t number = 0;
                        memcpy(&number, post.data.data(), sizeof number);
                        ASSERT_EQ(number, told_[post.group]) << "out of the group's order";
                    }
                    ++told_[post.group];
                    posted_.push_back({post.operation, post.recv_region});
                    ASSERT_LE(posted_.size(), kFarPostsMax + size_t{kFarGroupsMax} * kFarPostsOfGroup);
                }
            }
        }
    }
    // What the stand-in has heard of is over, as much of it.
    void finish(size_t count) {
        for (; count > 0 && !posted_.empty(); --count) {
            const uint32_t id = posted_.front().operation;
            posted_.pop_front();
            ASSERT_TRUE(operations_.take(SessionDone{id, LS_OK}));
            ls_operation* const operation = open_.at(id);
            ASSERT_EQ(operation->result, LS_OK);
            open_.erase(id);
            auto* const group = static_cast<FarGroup*>(operation->group);
            operations_.free(static_cast<FarOperation*>(operation));
            --group->open;
            if (group->dying) groups_.free(group);
        }
        operations_.post_waiting();
    }
    void finish_all() {
        while (!open_.empty()) {
            hear();
            ASSERT_FALSE(posted_.empty()) << open_.size() << " are never posted";
            finish(posted_.size() / 2 + 1);
        }
    }
    void connect(const PlayedAgent& agent) {
        const Fd heap = make_memory_file("test-heap", 4096);
        std::string error;
        ASSERT_TRUE(agent_.connect(agent.name, agent.token, heap.get(), 30, &error)) << error;
    }

    ls_context context_;
    FarConnection connection_{context_};
    AgentClient agent_;
    FarNeighbours neighbours_;
    FarGroups groups_{context_, connection_};
    FarOperations operations_{context_, connection_, agent_, neighbours_};
    SessionStream stand_in_;
    std::deque<uint64_t> sent_;
    std::map<uint32_t, ls_operation*> open_;  // by their numbers at the stand-in
    std::map<uint32_t, uint64_t> told_;       // groups, and how many operations of each were posted
    std::deque<Posted> posted_;               // and are not over
};

TEST_F(FarOperationsOfARank, AnyNumberCanBeOpen) {
    constexpr uint32_t kMore = 3000;
    FarGroup* const group = add_group();
    for (uint32_t i = 0; i < kFarPostsMax + kMore; ++i) start(*group);
    hear();
    EXPECT_EQ(posted_.size(), kFarPostsMax);
    EXPECT_EQ(ls_waiting(&context_), kMore);
    finish(1);
    hear();
    EXPECT_EQ(posted_.size(), kFarPostsMax);
    finish_all();
    EXPECT_EQ(told_[group->far_id], kFarPostsMax + kMore);
    EXPECT_EQ(ls_waiting(&context_), 0u);
    EXPECT_TRUE(operations_.idle());
}

// Whoever the first group waits for may be in the second one.
TEST_F(FarOperationsOfARank, AGroupGoesOnWhateverOthersWaitFor) {
    FarGroup *const first = add_group(), *const second = add_group(), *const third = add_group();
    for (uint32_t i = 0; i < kFarPostsMax + 10; ++i) start(*first);
    for (uint32_t i = 0; i < 2 * kFarPostsOfGroup; ++i) start(*second);
    for (uint32_t i = 0; i < kFarPostsOfGroup; ++i) start(*third);
    hear();
    EXPECT_EQ(told_[first->far_id], kFarPostsMax);
    EXPECT_EQ(told_[second->far_id], kFarPostsOfGroup);
    EXPECT_EQ(told_[third->far_id], kFarPostsOfGroup);
    std::rotate(posted_.begin(), posted_.begin() + kFarPostsMax, posted_.end());
    finish(4);  // of the second
    hear();
    EXPECT_EQ(told_[first->far_id], kFarPostsMax);
    EXPECT_EQ(told_[second->far_id], kFarPostsOfGroup + 4);
    finish_all();
}

TEST_F(FarOperationsOfARank, AGroupThatIsFreedGoesAfterWhatWaitsInIt) {
    FarGroup *const first = add_group(), *const second = add_group();
    for (uint32_t i = 0; i < kFarPostsMax; ++i) start(*first);
    for (uint32_t i = 0; i < 2 * kFarPostsOfGroup; ++i) start(*second);
    const uint32_t id = second->far_id;
    groups_.free(second);
    hear();
    EXPECT_EQ(told_[id], kFarPostsOfGroup);
    finish_all();
    hear();
    EXPECT_FALSE(told_.contains(id));
}

TEST_F(FarOperationsOfARank, WhatWaitsFailsWithALostStandIn) {
    FarGroup* const group = add_group();
    for (uint32_t i = 0; i < kFarPostsMax + 2; ++i) start(*group);
    EXPECT_FALSE(operations_.idle());
    connection_.lose("it is gone");
    operations_.fail();
    for (const auto& [id, operation] : open_) ASSERT_EQ(operation->result, LS_ERR_SERVICE);
    EXPECT_EQ(ls_waiting(&context_), 0u);
    EXPECT_TRUE(operations_.idle());
}

// All members learn of it, and have no group.
TEST_F(FarOperationsOfARank, AGroupTooManyCannotBeMade) {
    std::vector<FarGroup*> groups;
    for (uint32_t i = 0; i < kFarGroupsMax; ++i) groups.push_back(add_group());
    hear();
    EXPECT_EQ(told_.size(), kFarGroupsMax);
    EXPECT_EQ(groups_.test(*groups.back()), LS_IN_PROGRESS);
    const auto makes_none = [&] {
        FarGroup* const group = add_group();
        int result = LS_IN_PROGRESS;
        for (int turns = 0; result == LS_IN_PROGRESS && turns < 4; ++turns) result = groups_.test(*group);
        EXPECT_EQ(group->steps.reason(), "as many groups are open as a DPU makes for a rank");
        groups_.free(group);
        hear();
        return result == LS_ERR_UNAVAILABLE && told_.size() == kFarGroupsMax;
    };
    EXPECT_TRUE(makes_none());
    // One with an operation stays until that is over.
    start(*groups.front());
    groups_.free(groups.front());
    EXPECT_TRUE(makes_none());
    finish_all();
    hear();
    EXPECT_EQ(told_.size(), kFarGroupsMax - 1);
    add_group();
    hear();
    EXPECT_EQ(told_.size(), kFarGroupsMax);
}

// Each operation needs another piece of memory, and there are more of them than a stand-in knows regions.
TEST_F(FarOperationsOfARank, RegionsThatAreInUseAreWaitedFor) {
    PlayedAgent agent(false);
    connect(agent);
    FarGroup* const group = add_group();
    constexpr uint32_t kMore = 100;
    for (uint32_t i = 0; i < kFarRegionsMax + kMore; ++i) start(*group, kHeap + i * kUnit);
    while (!open_.empty()) {
        hear();
        ASSERT_FALSE(posted_.empty()) << open_.size() << " are never posted";
        for (const Posted& one : posted_) ASSERT_LT(one.region, kFarRegionsMax) << "that is none";
        finish(posted_.size() / 2 + 1);
    }
    EXPECT_EQ(told_[group->far_id], kFarRegionsMax + kMore);
    EXPECT_GT(agent.open_max, kFarRegionsMax / 2);
    EXPECT_LT(agent.open_max, kFarRegionsMax);
    EXPECT_FALSE(agent.was_told_nonsense);
}

// An agent that is told to close what is not open takes its rank for a hostile one.
TEST_F(FarOperationsOfARank, WhatCouldNotBeOpenedIsNotClosed) {
    PlayedAgent agent(true);
    connect(agent);
    FarGroup* const group = add_group();
    for (uint32_t i = 0; i < 100; ++i) {
        start(*group, kHeap + i * kUnit);
        hear();
        EXPECT_EQ(posted_.front().region == kFarRegionsMax, i == 0);
        finish(1);
    }
    EXPECT_EQ(agent.open_max, 64u);
    EXPECT_FALSE(agent.was_told_nonsense);
}

}  // namespace
}  // namespace longshore
