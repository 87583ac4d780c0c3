// The agent of a machine whose service processes are on a DPU: a real one, asked by ranks as they do, and
// reached over the network.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <fstream>
#include <memory>
#include <numeric>
#include <set>

#include "client.h"
#include "fabric/dpu/host_region.h"
#include "fabric/network.h"
#include "fabric/shm/agent_control.h"
#include "fabric/ucx/worker.h"
#include "host/agent_client.h"
#include "host/context.h"

namespace longshore::test {
namespace {

constexpr uint32_t kLimitS = 5;
constexpr uint64_t kHeapBytes = 64 << 20;  // sparse

// One that is ready: where it is, and whether it still runs.
class RunningAgent {
  public:
    explicit RunningAgent(uint32_t limit_s = kLimitS) : starter_(std::make_unique<ServiceStarter>()) {
        if (!starter_->start_agent(LONGSHORED_PATH, limit_s, &error)) return;
        ServiceStarter::State state = ServiceStarter::State::kPending;
        while ((state = starter_->test(&ready, &address, &error)) == ServiceStarter::State::kPending)
            usleep(1000);
        const Fd probe = connect_to(ready.name);
        pid_t pid = 0;
        if (!probe || !peer_is_same_user(probe, &pid)) return;
        process_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    }
    bool ends_within(int ms) const {
        pollfd gone{process_.get(), POLLIN, 0};
        return poll(&gone, 1, ms) == 1;
    }
    void give_up() { starter_.reset(); }

    ServiceReady ready;
    std::vector<std::byte> address;
    std::string error;

  private:
    std::unique_ptr<ServiceStarter> starter_;
    Fd process_;
};

struct Heap {
    Fd file = make_memory_file("test-heap", kHeapBytes);
    Mapping memory = Mapping::shared(file.get(), kHeapBytes);
};

// A service process's way to memory that an agent has opened.
class Reacher : private UcxWorker::Listener {
  public:
    explicit Reacher(const std::vector<std::byte>& address) {
        worker_ = UcxWorker::create(&error_, UcxWorker::Use::kMemory);
        if (!worker_) return;
        worker_->set_listener(this);
        endpoint_ = worker_->connect(address);
    }
    bool reaches() const { return endpoint_ != nullptr; }
    bool get(const OpenedMemory& opened, uint64_t offset, std::span<std::byte> to) {
        return move(opened,
                    [&](UcxKey* key) { worker_->get(endpoint_, key, opened.address + offset, to, ++id_); });
    }
    bool put(const OpenedMemory& opened, std::span<const std::byte> from, uint64_t offset) {
        return move(opened,
                    [&](UcxKey* key) { worker_->put(endpoint_, key, from, opened.address + offset, ++id_); });
    }

  private:
    bool move(const OpenedMemory& opened, const auto& begin) {
        UcxKey* const key = worker_->import_key(endpoint_, opened.key);
        if (key == nullptr) return false;
        begin(key);
        const uint64_t end = now_ns() + 10'000'000'000;
        while (reached_ != id_ && now_ns() < end) worker_->progress();
        const bool moved = reached_ == id_ && ok_;
        worker_->forget_key(key);
        return moved;
    }
    void on_message(std::span<const std::byte>, std::span<const std::byte>) override {}
    void on_offer(std::span<const std::byte>, uint64_t, UcxOffer) override {}
    void on_taken(uint64_t, bool) override {}
    void on_sent(uint64_t) override {}
    void on_reached(uint64_t id, bool ok) override { reached_ = id, ok_ = ok; }
    void on_broken(UcxEndpoint*) override {}

    std::string error_;
    std::unique_ptr<UcxWorker> worker_;
    UcxEndpoint* endpoint_ = nullptr;
    uint64_t id_ = 0, reached_ = 0;
    bool ok_ = false;
};

std::vector<std::byte> some_bytes(size_t count, unsigned seed) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8) + seed);
    return bytes;
}

class AgentTest : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(agent_.error, "");
        ASSERT_TRUE(heap_.memory);
    }
    bool connect(AgentClient& client, std::string* error) {
        return client.connect(agent_.ready.name, agent_.ready.token, heap_.file.get(), kHeapBytes, kLimitS,
                              error);
    }
    // A connection on which anything can be said.
    Fd raw_connection() {
        Fd socket = connect_to(agent_.ready.name);
        EXPECT_TRUE(socket);
        return socket;
    }
    AgentHello hello() const {
        AgentHello hello;
        hello.token = agent_.ready.token;
        hello.memory_bytes = kHeapBytes;
        return hello;
    }
    static Io answer_on(const Fd& socket, AgentAnswer* answer) {
        alignas(8) std::byte buffer[kAgentPacketBytesMax];
        pollfd ready{socket.get(), POLLIN, 0};
        poll(&ready, 1, 5000);
        size_t bytes = 0;
        const Io io = receive_packet(socket, buffer, sizeof buffer, &bytes, nullptr);
        if (io == Io::kOk) memcpy(static_cast<void*>(answer), buffer, std::min(bytes, sizeof *answer));
        return io;
    }
    static bool is_closed(const Fd& socket) {
        AgentAnswer answer;
        return answer_on(socket, &answer) == Io::kClosed;
    }
    // One that has said hello.
    Fd greeted() {
        Fd socket = raw_connection();
        const AgentHello first = hello();
        const int file = heap_.file.get();
        EXPECT_EQ(send_packet(socket, &first, sizeof first, {&file, 1}), Io::kOk);
        AgentAnswer answer;
        EXPECT_EQ(answer_on(socket, &answer), Io::kOk);
        EXPECT_EQ(answer.ok, 1u) << answer.reason;
        return socket;
    }

    RunningAgent agent_;
    Heap heap_;
};

TEST_F(AgentTest, BytesOfARankAreGotAndPutThroughItsKey) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    constexpr uint64_t kAt = 5 << 20, kBytes = 300'000;
    OpenedMemory opened;
    ASSERT_TRUE(rank.open(kAt, kBytes, &opened, &error)) << error;
    EXPECT_EQ(opened.bytes, kBytes);
    EXPECT_LE(opened.key.size(), kHostKeyBytesMax);
    const auto there = some_bytes(kBytes, 1), put = some_bytes(1000, 2);
    memcpy(heap_.memory.data() + kAt, there.data(), kBytes);

    Reacher reacher(agent_.address);
    ASSERT_TRUE(reacher.reaches());
    std::vector<std::byte> got(kBytes);
    ASSERT_TRUE(reacher.get(opened, 0, got));
    EXPECT_EQ(got, there);
    ASSERT_TRUE(reacher.put(opened, put, 4000));
    EXPECT_EQ(memcmp(heap_.memory.data() + kAt + 4000, put.data(), put.size()), 0);
    EXPECT_EQ(memcmp(heap_.memory.data() + kAt, there.data(), 4000), 0);

    OpenedMemory other;
    ASSERT_TRUE(rank.open(0, kHeapBytes, &other, &error)) << error;
    EXPECT_NE(other.id, opened.id);
    rank.close(opened.id);
    ASSERT_TRUE(reacher.get(other, kAt + 4000, {got.data(), put.size()}));
    EXPECT_EQ(memcmp(got.data(), put.data(), put.size()), 0);
}

TEST_F(AgentTest, GoesWithTheLastRank) {
    auto first = std::make_unique<AgentClient>(), second = std::make_unique<AgentClient>();
    std::string error;
    ASSERT_TRUE(connect(*first, &error) && connect(*second, &error)) << error;
    agent_.give_up();
    first.reset();
    EXPECT_FALSE(agent_.ends_within(300));
    OpenedMemory opened;
    EXPECT_TRUE(second->open(0, 4096, &opened, &error)) << error;
    second.reset();
    EXPECT_TRUE(agent_.ends_within(5000));
}

// Its connection lives on in a child that it has forked.
TEST_F(AgentTest, ARankThatDiesIsNoticedAlthoughItsChildLives) {
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t rank = fork();
    if (rank == 0) {
        AgentClient client;
        std::string error;
        if (!connect(client, &error)) _exit(1);
        const pid_t child = fork();
        if (child == 0) {
            char byte;
            (void)!read(pipes[0], &byte, 1);  // until the test closes its end
            _exit(0);
        }
        _exit(child > 0 ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(agent_.ends_within(5000));
    close(pipes[0]);
    close(pipes[1]);
}

TEST_F(AgentTest, GoesWithWhoStartedItIfNobodyHasCome) {
    agent_.give_up();
    EXPECT_TRUE(agent_.ends_within(5000));
}

TEST(Agent, GoesIfNobodyComes) {
    const RunningAgent agent(1);
    ASSERT_EQ(agent.error, "");
    EXPECT_FALSE(agent.ends_within(1000));
    EXPECT_TRUE(agent.ends_within(5000));
}

// What is still under way to its memory when a rank goes must not end the agent of the others.
TEST_F(AgentTest, OutlivesWhatIsAskedOfARankThatHasGone) {
    AgentClient stays;
    auto goes = std::make_unique<AgentClient>();
    std::string error;
    ASSERT_TRUE(connect(stays, &error) && connect(*goes, &error)) << error;
    OpenedMemory of_it, of_other;
    const auto bytes = some_bytes(5000, 3);
    ASSERT_TRUE(goes->open(0, 1 << 20, &of_it, &error) && stays.open(0, 1 << 20, &of_other, &error)) << error;
    Reacher reacher(agent_.address);
    ASSERT_TRUE(reacher.put(of_it, bytes, 0));
    EXPECT_EQ(memcmp(heap_.memory.data(), bytes.data(), bytes.size()), 0);
    memset(heap_.memory.data(), 0, bytes.size());
    goes.reset();
    usleep(200'000);
    reacher.put(of_it, bytes, 0);  // where to is nobody's business
    EXPECT_EQ(heap_.memory.data()[1], std::byte{0});
    std::vector<std::byte> got(bytes.size(), std::byte{1});
    EXPECT_TRUE(Reacher(agent_.address).get(of_other, 0, got));
    EXPECT_EQ(got[1], std::byte{0});
}

TEST_F(AgentTest, RefusesWhoDoesNotKnowTheToken) {
    AgentClient rank;
    Token wrong = agent_.ready.token;
    wrong[3] ^= 1;
    std::string error;
    EXPECT_FALSE(rank.connect(agent_.ready.name, wrong, heap_.file.get(), kHeapBytes, kLimitS, &error));
    EXPECT_NE(error, "");
    OpenedMemory opened;
    EXPECT_FALSE(rank.open(0, 4096, &opened, &error));
}

TEST_F(AgentTest, RefusesWhatIsNoSharedMemory) {
    std::string error;
    AgentClient rank;
    const auto gives = [&](int file, uint64_t bytes) {
        return rank.connect(agent_.ready.name, agent_.ready.token, file, bytes, kLimitS, &error);
    };
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    const Fd growing(memfd_create("test-growing", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(growing.get(), kHeapBytes), 0);
    for (const int file : {null.get(), growing.get(), -1}) {
        EXPECT_FALSE(gives(file, kHeapBytes));
        EXPECT_NE(error.find("cannot be handed on"), std::string::npos) << error;
    }
    EXPECT_FALSE(gives(heap_.file.get(), kHeapBytes + 4096));
    EXPECT_FALSE(gives(heap_.file.get(), 0));
    EXPECT_TRUE(gives(heap_.file.get(), kHeapBytes)) << error;
    // Nor does the agent take its client's word for it.
    for (const int file : {null.get(), growing.get()}) {
        const Fd socket = raw_connection();
        const AgentHello first = hello();
        ASSERT_EQ(send_packet(socket, &first, sizeof first, {&file, 1}), Io::kOk);
        AgentAnswer answer;
        ASSERT_EQ(answer_on(socket, &answer), Io::kOk);
        EXPECT_EQ(answer.ok, 0u);
        EXPECT_NE(std::string(answer.reason), "");
        EXPECT_TRUE(is_closed(socket));
    }
}

TEST_F(AgentTest, ClosesOnWhoDoesNotKeepToTheProtocol) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    OpenedMemory opened;
    EXPECT_FALSE(rank.open(0, kHeapBytes + 1, &opened, &error));
    EXPECT_FALSE(rank.open(kHeapBytes, 1, &opened, &error));
    EXPECT_FALSE(rank.open(4096, UINT64_MAX - 100, &opened, &error));
    EXPECT_FALSE(rank.open(0, 0, &opened, &error));
    EXPECT_TRUE(rank.open(kHeapBytes - 1, 1, &opened, &error)) << error;

    const auto closed_after = [&](const auto& packet, size_t bytes, const Fd& socket) {
        EXPECT_EQ(send_packet(socket, &packet, bytes), Io::kOk);
        return is_closed(socket);
    };
    const auto request = [](uint32_t id, uint64_t offset, uint64_t bytes) {
        AgentOpen open;
        open.id = id, open.offset = offset, open.bytes = bytes;
        return open;
    };
    constexpr size_t kWhole = sizeof(AgentOpen);
    EXPECT_TRUE(closed_after(request(1, 0, kHeapBytes + 1), kWhole, greeted()));
    EXPECT_TRUE(closed_after(request(1, kHeapBytes + 1, 1), kWhole, greeted()));
    EXPECT_TRUE(closed_after(request(1, 4096, UINT64_MAX - 100), kWhole, greeted()));
    EXPECT_TRUE(closed_after(request(1, 0, 0), kWhole, greeted()));
    EXPECT_TRUE(closed_after(request(0, 0, 1), kWhole, greeted())) << "0 is not for openings";
    EXPECT_TRUE(closed_after(request(1, 0, 1), kWhole - 1, greeted()));
    EXPECT_TRUE(closed_after(request(1, 0, 1), 4, greeted()));
    EXPECT_TRUE(closed_after(request(1, 0, 1), kWhole, raw_connection())) << "without a hello";
    AgentClose unknown;
    unknown.id = 7;
    EXPECT_TRUE(closed_after(unknown, sizeof unknown, greeted()));
    AgentOpen other = request(1, 0, 1);
    other.header.magic ^= 1;
    EXPECT_TRUE(closed_after(other, kWhole, greeted()));
    EXPECT_TRUE(closed_after(hello(), sizeof(AgentHello), greeted())) << "a second hello";

    const Fd twice = greeted();
    const AgentOpen same = request(1, 0, 4096);
    AgentAnswer answer;
    ASSERT_EQ(send_packet(twice, &same, kWhole), Io::kOk);
    ASSERT_EQ(answer_on(twice, &answer), Io::kOk);
    EXPECT_EQ(answer.ok, 1u);
    EXPECT_TRUE(closed_after(same, kWhole, twice)) << "an id that is in use";

    ASSERT_TRUE(rank.open(0, 1, &opened, &error)) << "the others have nothing to do with it: " << error;
}

TEST_F(AgentTest, OneThatSaysNothingIsNotWaitedFor) {
    const Fd silent = raw_connection();
    EXPECT_TRUE(is_closed(silent));
}

TEST_F(AgentTest, SleepsWhenThereIsNothingToDo) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    const auto agents = find_services("agent");
    ASSERT_FALSE(agents.empty());
    const auto ticks = [&] {
        uint64_t sum = 0;
        for (const pid_t pid : agents) {
            std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
            std::string word;
            for (int i = 1; i <= 15 && stat >> word; ++i) {
                if (i >= 14) sum += strtoul(word.c_str(), nullptr, 10);
            }
        }
        return sum;
    };
    const uint64_t before = ticks();
    usleep(1'000'000);
    EXPECT_LE(ticks() - before, 5u) << "hundredths of a second, of one";
}

// --- service processes of a job whose ranks' memory is reached through agents: each process here stands in
// for itself, and posts operations as src/dpu does.

struct Machines {
    struct {
        ServiceReady ready;
        std::byte address[kAddressBytesMax];
        size_t address_bytes;
    } agents[2];
};

struct Case {
    uint32_t ranks, machines;
};

constexpr uint64_t kBlock = 200'000;
constexpr RegionId kHeapRegion{40};

#define NEED(condition, why)                                                                          \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "  [rank %u] line %d: %s\n", c.rank, __LINE__, std::string(why).c_str()); \
            return 1;                                                                                 \
        }                                                                                             \
    } while (0)

int finish(RankClient& c, RecordId record) {
    const uint64_t end = now_ns() + 20'000'000'000;
    while (c.context->engine->poll(record) != Progress::kComplete) {
        NEED(now_ns() < end, "timed out");
        ls_sleep(c.context, 1'000'000);
    }
    NEED(c.context->engine->error(record) == OperationError::kNone, "it failed");
    c.context->engine->release(record, &c.context->wake);
    flush_wake(*c.context);
    return 0;
}

int exchange_all(RankClient& c, const Heap& heap) {
    const LocalRank self = c.context->engine->self();
    for (uint32_t round = 1; round <= 3; ++round) {
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

int stand_in(RankClient& c, Machines& machines, uint32_t count) {
    auto& agent = machines.agents[c.rank % count];
    std::string error;
    std::unique_ptr<RunningAgent> own;
    if (c.rank < count) {
        own = std::make_unique<RunningAgent>();
        NEED(own->error.empty(), own->error);
        agent.ready = own->ready;
        agent.address_bytes = own->address.size();
        memcpy(agent.address, own->address.data(), own->address.size());
    }
    c.barrier();
    const Heap heap;
    AgentClient client;
    OpenedMemory opened;
    NEED(client.connect(agent.ready.name, agent.ready.token, heap.file.get(), kHeapBytes, kLimitS, &error) &&
             client.open(0, kHeapBytes, &opened, &error),
         error);
    const ls_host host{c.rank % count + 1, c.rank < count ? agent.address : nullptr,
                       c.rank < count ? agent.address_bytes : 0};
    c.host = &host;
    NEED(c.attach(), c.error());
    NEED(ls_node_count(c.context) == count, "not as many nodes as machines");
    NEED(c.make_group(), c.error());
    const NodeId node{static_cast<uint16_t>(ls_node(c.context))};
    NEED(publish_host_region(c.context->memory.region(c.context->engine->self(), kHeapRegion),
                             {node, opened.address, opened.bytes, opened.key}),
         "the key is too long");
    c.barrier();
    const int result = exchange_all(c, heap);
    c.barrier();
    return result;
}

class OnDpu : public testing::TestWithParam<Case> {};

TEST_P(OnDpu, BytesGoFromHostToHost) {
    Mapping shared =
        Mapping::shared(make_memory_file("test-machines", sizeof(Machines)).get(), sizeof(Machines));
    auto& machines = *reinterpret_cast<Machines*>(shared.data());
    JobOptions options;
    options.ranks = GetParam().ranks;
    // What a stand-in must not do it does not, whatever it is told.
    options.cooperative = true;
    Job job(options, [&](RankClient& c) { return stand_in(c, machines, GetParam().machines); });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone(5));
}

INSTANTIATE_TEST_SUITE_P(Jobs, OnDpu, testing::Values(Case{1, 1}, Case{2, 1}, Case{2, 2}, Case{4, 2}),
                         [](const auto& c) {
                             return std::to_string(c.param.ranks) + "on" +
                                    std::to_string(c.param.machines);
                         });

TEST(OnDpuAlone, WithoutAnAgentThereIsNoJob) {
    JobOptions options;
    options.ranks = 2;
    Job job(options, [](RankClient& c) {
        const ls_host host{1, nullptr, 0};
        c.host = &host;
        NEED(!c.attach(), "attached");
        NEED(c.error().find("agent") != std::string::npos, c.error());
        return 0;
    });
    EXPECT_TRUE(job.passed());
}

}  // namespace
}  // namespace longshore::test
