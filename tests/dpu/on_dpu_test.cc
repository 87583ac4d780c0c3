// A job whose ranks' memory is reached through agents, as where service processes are on a DPU: each process
// stands in for itself, and posts operations on memory that it has not.
#include <gtest/gtest.h>

#include "dpu/card/stand_in_post.h"
#include "dpu/card/stand_in_role.h"
#include "dpu/rank/agent_client.h"
#include "dpu/session/session.h"
#include "dpu/transport/host_region.h"
#include "fabric/network.h"
#include "host/meeting.h"
#include "running_agent.h"
#include "tests/host/client.h"

namespace longshore::test {
namespace {

[[maybe_unused]] const bool stands_in = (add_stand_in_role(), true);

struct Machines {
    struct {
        ServiceReady ready;
        std::byte address[kAddressBytesMax];
        size_t address_bytes;
    } agents[2];
};

// Where aliases of hosts' memory can be had: test equipment takes the place of cards (tests/dpu), as parts of
// longshored in LONGSHORE_INTERNAL_TEST_PARTS. kSecondCannot: not by the service processes of machine 1.
enum class Cards : uint8_t { kNone, kAll, kSecondCannot };

struct Case {
    uint32_t ranks, machines;
    Cards cards = Cards::kNone;
};

void take_part(const char* name) {
    const char* const folder = getenv("LONGSHORE_INTERNAL_TEST_PARTS");
    if (folder != nullptr)
        setenv("LONGSHORE_INTERNAL_NETWORK", (std::string(folder) + "/" + name + ".so").c_str(), 1);
}

constexpr uint64_t kBlock = 200'000;
constexpr uint32_t kRounds = 3;
constexpr RegionId kHeapRegion{40};
constexpr uint64_t kInTimeNs = kInTimeMs * 1'000'000ull;

#define NEED(condition, why)                                                                          \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "  [rank %u] line %d: %s\n", c.rank, __LINE__, std::string(why).c_str()); \
            return 1;                                                                                 \
        }                                                                                             \
    } while (0)

int finish(RankClient& c, RecordId record) {
    const uint64_t end = now_ns() + kInTimeNs;
    while (c.context->engine->poll(record) != Progress::kComplete) {
        NEED(now_ns() < end, "timed out");
        ls_sleep(c.context, 1'000'000);
    }
    NEED(c.context->engine->error(record) == OperationError::kNone, "it failed");
    c.context->engine->release(record, &c.context->wake);
    flush_wake(*c.context);
    return 0;
}

int exchange_all(RankClient& c, const Heap& heap, uint32_t first, Algorithm algorithm) {
    const LocalRank self = c.context->engine->self();
    for (uint32_t round = first; round < first + kRounds; ++round) {
        std::byte* const send = heap.memory.data();
        std::byte* const recv = send + (8 << 20);
        for (uint32_t r = 0; r < c.size; ++r) {
            const auto block = some_bytes(kBlock, c.rank * 16 + r * 3 + round);
            memcpy(send + r * kBlock, block.data(), kBlock);
        }
        memset(recv, 0, c.size * kBlock);
        OperationArguments a;
        a.group = c.group->slot;
        a.rank = Rank{c.rank};
        a.sequence = round;
        a.algorithm = algorithm;
        a.send = {self, kHeapRegion, 0};
        a.recv = {self, kHeapRegion, 8 << 20};
        a.send_block_bytes = a.recv_block_bytes = kBlock;
        RecordId record;
        NEED(c.context->engine->post(a, true, &record, &c.context->wake) == PostResult::kPosted, "no room");
        flush_wake(*c.context);
        if (finish(c, record) != 0) return 1;
        for (uint32_t r = 0; r < c.size; ++r) {
            const auto block = some_bytes(kBlock, r * 16 + c.rank * 3 + round);
            NEED(memcmp(recv + r * kBlock, block.data(), kBlock) == 0, "wrong bytes");
        }
    }
    return 0;
}

// Nobody reaches what a stand-in itself has: it must not be given, and nothing must be moved by this process
// where a region of its rank's cannot be reached, whatever it is told.
int move_nothing(RankClient& c, uint64_t posted) {
    std::vector<std::byte> send(c.size * kBlock, std::byte{1}), recv(c.size * kBlock);
    ls_arguments own{};
    own.collective = LS_ALLTOALL;
    own.send = send.data();
    own.recv = recv.data();
    own.send_block_bytes = own.recv_block_bytes = kBlock;
    ls_set_cooperative(c.context, 1);
    NEED(c.run(own) == LS_ERR_UNAVAILABLE, "its own memory was taken");
    c.group->sequence = posted;
    OperationArguments a;
    a.send.region = a.recv.region = RegionId{kFarRegionsMax};
    a.send_block_bytes = a.recv_block_bytes = kBlock;
    Plan plan;
    plan.send_bytes = plan.recv_bytes = c.size * kBlock;
    ls_operation* operation = nullptr;
    NEED(start_for_rank(c.group, a, plan, {}, &operation) == LS_OK, "it was not posted");
    int result = LS_IN_PROGRESS;
    for (const uint64_t end = now_ns() + kInTimeNs; result == LS_IN_PROGRESS && now_ns() < end;) {
        result = ls_operation_test(operation, nullptr);
        ls_sleep(c.context, 1'000'000);
    }
    NEED(result < 0, "it was moved, or waits for ever");
    ls_operation_free(operation);
    return 0;
}

// How service processes of this node have moved the bytes, which is told by its leader. They write it down
// now and then.
int look_at_counters(RankClient& c, bool staged) {
    ls_service_stats stats[1]{};
    if (!ls_is_node_leader(c.context)) return 0;
    const auto& s = stats[0];
    for (const uint64_t end = now_ns() + kInTimeNs; now_ns() < end;) {
        NEED(ls_services(c.context, stats, 1) == 1, "no service process");
        if (staged ? s.bytes_staged != 0 : s.copies + s.reads != 0) break;
        usleep(1000);
    }
    NEED((s.bytes_staged != 0) == staged, "bytes went through staging memory, or should have");
    NEED(staged || s.copies + s.reads != 0, "who moved them?");
    NEED(s.bytes_bounced == 0, "bytes went through a service process");
    return 0;
}

int stand_in(RankClient& c, Machines& machines, const Case& job) {
    const uint32_t count = job.machines;
    auto& agent = machines.agents[c.rank % count];
    if (job.cards != Cards::kNone) take_part("ucx-exports");
    std::string error;
    std::unique_ptr<RunningAgent> own;
    if (c.rank < count) {
        own = std::make_unique<RunningAgent>();
        NEED(own->error.empty(), own->error);
        agent.ready = own->ready;
        agent.address_bytes = own->address.size();
        memcpy(agent.address, own->address.data(), own->address.size());
        NEED((own->ready.probe.bytes != 0) == (job.cards != Cards::kNone), own->ready.reason);
        NEED((own->ready.probe.bytes != 0) == (own->ready.reason[0] == 0), "it does not say why");
    }
    c.barrier();
    const Heap heap;
    AgentClient client;
    OpenedMemory opened;
    NEED(client.connect(agent.ready.name, agent.ready.token, heap.file.get(), kLimitS, &error), error);
    ls_host host{};
    host.machine = c.rank % count + 1;
    if (c.rank < count)
        host = {host.machine,
                agent.address,
                agent.address_bytes,
                agent.ready.probe.descriptor,
                agent.ready.probe.bytes,
                agent.ready.reason};
    c.host = &host;
    if (job.cards == Cards::kSecondCannot && c.rank % count == 1) take_part("ucx-imports-none");
    const bool aliases = job.cards == Cards::kAll;
    if (c.options().memory_mode == LS_MEMORY_DIRECT && !aliases) {
        NEED(!c.attach(), "attached, and has what cannot be had");
        NEED(c.error().find("LONGSHORE_MEMORY_MODE=direct") != std::string::npos, c.error());
        NEED(job.cards == Cards::kNone || c.error().find("node 1") != std::string::npos, c.error());
        return 0;
    }
    NEED(c.attach(), c.error());
    NEED(c.context->aliases == aliases, "aliases where there should be none, or the other way round");
    NEED(std::string(ls_memory_reach(c.context)) == (aliases ? "dpu-alias" : "dpu"), "it is said otherwise");
    NEED(client.open(0, kHeapBytes, c.context->aliases, &opened, &error), error);
    NEED(opened.exported.empty() == !aliases, "not exported as asked for");
    NEED(ls_node_count(c.context) == count, "not as many nodes as machines");
    NEED(c.make_group(), c.error());
    const NodeId node{static_cast<uint16_t>(ls_node(c.context))};
    NEED(publish_host_region(c.context->memory.region(c.context->engine->self(), kHeapRegion),
                             {node, opened.address, opened.bytes, opened.key, opened.exported}),
         "the key is too long");
    c.barrier();
    int result = exchange_all(c, heap, 1, Algorithm::kDirect);
    if (result == 0) result = look_at_counters(c, !aliases);
    c.barrier();
    // By its algorithm an operation goes through staging memory all the same, between nodes.
    if (result == 0) result = exchange_all(c, heap, 1 + kRounds, Algorithm::kStaged);
    if (result == 0) result = look_at_counters(c, !aliases || count > 1);
    c.barrier();
    if (result == 0) result = move_nothing(c, 2 * kRounds);
    c.barrier();
    return result;
}

class OnDpu : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        const bool wants = GetParam().cards != Cards::kNone;
        if (wants && getenv("LONGSHORE_INTERNAL_TEST_PARTS") == nullptr)
            GTEST_SKIP() << "this UCX exports no memory";
        if (wants && access("/proc/1/map_files", X_OK) != 0)
            GTEST_SKIP() << "/proc/PID/map_files is not for this user";
    }
    static void run(ls_memory_mode mode) {
        Mapping shared =
            Mapping::shared(make_memory_file("test-machines", sizeof(Machines)).get(), sizeof(Machines));
        auto& machines = *reinterpret_cast<Machines*>(shared.data());
        JobOptions options;
        options.ranks = GetParam().ranks;
        options.memory_mode = mode;
        Job job(options, [&](RankClient& c) { return stand_in(c, machines, GetParam()); });
        EXPECT_TRUE(job.passed());
        EXPECT_TRUE(wait_until_gone());
    }
};

TEST_P(OnDpu, BytesGoFromHostToHost) {
    run(LS_MEMORY_AUTO);
}

TEST_P(OnDpu, WhereAliasesAreAskedForAndCannotBeHadThereIsNoJob) {
    run(LS_MEMORY_DIRECT);
}

std::string name_of(const testing::TestParamInfo<Case>& c) {
    const char* const cards = c.param.cards == Cards::kNone  ? ""
                              : c.param.cards == Cards::kAll ? "WithCards"
                                                             : "OneWithoutCard";
    return std::to_string(c.param.ranks) + "on" + std::to_string(c.param.machines) + cards;
}

INSTANTIATE_TEST_SUITE_P(Jobs, OnDpu,
                         testing::Values(Case{1, 1}, Case{2, 1}, Case{2, 2}, Case{4, 2},
                                         Case{2, 1, Cards::kAll}, Case{4, 2, Cards::kAll},
                                         Case{4, 2, Cards::kSecondCannot}),
                         name_of);

// A stand-in hears from its rank what all have given, its own words among it, and the rank may be hostile. A
// sanitizer sees what is written beyond its memory.
struct Lie {
    const char* what;
    bool of_entry;     // else of the word of the first rank of the node
    size_t at, bytes;  // there
    uint64_t value;    // each byte of it, or a number in the first of them
    const char* says;  // what becomes of it
};
class OnDpuOfALiar : public testing::TestWithParam<Lie> {};

TEST_P(OnDpuOfALiar, ThereIsNoJobAndNoHarm) {
    JobOptions options;
    options.ranks = 1;
    options.services = 8;  // their addresses together are longer than anything that was exchanged before
    Job job(options, [](RankClient& c) {
        const RunningAgent agent;
        NEED(agent.error.empty(), agent.error);
        const ls_host host{1, agent.address.data(), agent.address.size(), nullptr, 0, nullptr};
        c.host = &host;
        bool lied = false;
        c.tamper = [&](std::byte* all, size_t bytes) {
            const bool of_entry = bytes > kReasonBytes;
            if ((!of_entry && bytes != sizeof(NodeWord)) || of_entry != GetParam().of_entry || lied) return;
            lied = true;
            memcpy(all + GetParam().at, &GetParam().value, std::min(GetParam().bytes, sizeof(uint64_t)));
            if (GetParam().bytes > sizeof(uint64_t))
                memset(all + GetParam().at, static_cast<int>(GetParam().value), GetParam().bytes);
        };
        NEED(!c.attach(), "attached");
        NEED(lied, "it was never asked for the address of its supervisor");
        NEED(c.error().find(GetParam().says) != std::string::npos, c.error());
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

constexpr const char* kNoAddress = "a node tells no address of its supervisor";
constexpr const char* kNoService = "the address of a service process is none";

INSTANTIATE_TEST_SUITE_P(
    Lies, OnDpuOfALiar,
    testing::Values(
        Lie{"AnotherName", false, offsetof(NodeWord, name), sizeof(NameBytes), 'x',
            "cannot reach the supervisor"},
        Lie{"AnotherToken", false, offsetof(NodeWord, token), sizeof(Token), 'x', "refused this rank"},
        Lie{"NoEntry", false, offsetof(NodeWord, entry_bytes), 2, 0, kNoAddress},
        Lie{"AShorterEntry", false, offsetof(NodeWord, entry_bytes), 2, 1, "tells two addresses"},
        Lie{"ALongerEntry", false, offsetof(NodeWord, entry_bytes), 2, kEntryBytesMax, "tells two addresses"},
        Lie{"AnEntryTooLong", false, offsetof(NodeWord, entry_bytes), 2, UINT16_MAX, kNoAddress},
        Lie{"AnotherVersion", true, 0, 1, 9, kNoService},
        Lie{"AHostWithoutEnd", true, 1, 1, UINT8_MAX, kNoService},
        Lie{"NoServiceProcesses", true, 2, 2, 0, kNoService},
        Lie{"TooManyServiceProcesses", true, 4, 2, UINT16_MAX, kNoService},
        Lie{"NothingButOnes", true, 0, 256, UINT8_MAX, kNoService}),
    [](const auto& lie) { return lie.param.what; });

TEST(OnDpuAlone, WithoutAnAgentThereIsNoJob) {
    JobOptions options;
    options.ranks = 2;
    Job job(options, [](RankClient& c) {
        const ls_host host{1, nullptr, 0, nullptr, 0, nullptr};
        c.host = &host;
        NEED(!c.attach(), "attached");
        NEED(c.error().find("agent") != std::string::npos, c.error());
        return 0;
    });
    EXPECT_TRUE(job.passed());
}

}  // namespace
}  // namespace longshore::test
