// The agent of a machine whose service processes are on a DPU: a real one, asked by ranks as they do, and
// reached over the network.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/file.h"
#include "dpu/host_agent/agent_control.h"
#include "dpu/rank/agent_client.h"
#include "dpu/transport/host_region.h"
#include "fabric/ucx/worker.h"
#include "running_agent.h"
#include "tests/host/client.h"

namespace longshore::test {
namespace {

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

    // Sends, and reads no answer.
    void put_and_leave(const OpenedMemory& opened, std::span<const std::byte> from) {
        worker_->put(endpoint_, worker_->import_key(endpoint_, opened.key), from, opened.address, ++id_);
    }

  private:
    bool move(const OpenedMemory& opened, const auto& begin) {
        UcxKey* const key = reaches() ? worker_->import_key(endpoint_, opened.key) : nullptr;
        if (key == nullptr) return false;
        begin(key);
        const uint64_t end = now_ns() + kInTimeMs * 1'000'000ull;
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

class AgentTest : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(agent_.error, "");
        ASSERT_TRUE(heap_.memory);
    }
    bool connect(AgentClient& client, std::string* error) {
        return client.connect(agent_.ready.name, agent_.ready.token, heap_.file.get(), kLimitS, error);
    }
    static pid_t pid() {
        std::vector<pid_t> agents;  // that of the test before may still be ending
        EXPECT_TRUE(wait_until([&] { return (agents = find_services("agent")).size() == 1; }));
        return agents.empty() ? 0 : agents[0];
    }
    // Of the heap, in a process.
    size_t mappings(pid_t of) const {
        struct stat file {};
        EXPECT_EQ(fstat(heap_.file.get(), &file), 0);
        std::ifstream maps("/proc/" + std::to_string(of) + "/maps");
        const std::string inode = " " + std::to_string(file.st_ino) + " ";
        size_t count = 0;
        for (std::string line; std::getline(maps, line);) count += line.find(inode) != line.npos ? 1 : 0;
        return count;
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
        return hello;
    }
    static Io answer_on(const Fd& socket, AgentAnswer* answer) {
        alignas(8) std::byte buffer[kAgentPacketBytesMax];
        pollfd ready{socket.get(), POLLIN, 0};
        poll(&ready, 1, kInTimeMs);
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
    ASSERT_TRUE(rank.open(kAt, kBytes, false, &opened, &error)) << error;
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
    ASSERT_TRUE(rank.open(0, kHeapBytes, false, &other, &error)) << error;
    EXPECT_NE(other.id, opened.id);
    rank.close(opened.id);
    ASSERT_TRUE(reacher.get(other, kAt + 4000, {got.data(), put.size()}));
    EXPECT_EQ(memcmp(got.data(), put.data(), put.size()), 0);
}

// Whether one of this process's connections has something that was not read.
bool has_unread_bytes() {
    for (int fd = 0; fd < 256; ++fd) {
        int family = 0, unread = 0;
        socklen_t bytes = sizeof family;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) == 0 && family != AF_UNIX &&
            ioctl(fd, FIONREAD, &unread) == 0 && unread > 0)
            return true;
    }
    return false;
}

// What the killed one had not read makes its end a reset, so that the first answer to what it had put before
// fails.
TEST_F(AgentTest, OutlivesAServiceProcessThatIsKilledAmidPuts) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    OpenedMemory opened;
    ASSERT_TRUE(rank.open(0, 4096, false, &opened, &error)) << error;
    const auto put = some_bytes(100, 1);
    const pid_t agent = pid();
    const pid_t service = fork();
    if (service == 0) {
        Reacher reacher(agent_.address);
        for (int i = 0; i < 10; ++i) {  // until nothing of the connecting is left to be said
            if (!reacher.put(opened, put, 0)) _exit(1);
        }
        reacher.put_and_leave(opened, put);
        if (!wait_until(has_unread_bytes)) _exit(2);
        kill(agent, SIGSTOP);
        for (int i = 0; i < 20; ++i) reacher.put_and_leave(opened, put);
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(service, &status, 0), service);
    kill(agent, SIGCONT);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;

    Reacher next(agent_.address);
    ASSERT_TRUE(next.reaches());
    const auto other = some_bytes(100, 2);
    ASSERT_TRUE(next.put(opened, other, 0));
    EXPECT_EQ(memcmp(heap_.memory.data(), other.data(), other.size()), 0);
    EXPECT_FALSE(agent_.ends_within(0));
}

TEST_F(AgentTest, GoesWithTheLastRank) {
    auto first = std::make_unique<AgentClient>(), second = std::make_unique<AgentClient>();
    std::string error;
    ASSERT_TRUE(connect(*first, &error) && connect(*second, &error)) << error;
    agent_.give_up();
    first.reset();
    EXPECT_FALSE(agent_.ends_within(300));
    OpenedMemory opened;
    EXPECT_TRUE(second->open(0, 4096, false, &opened, &error)) << error;
    second.reset();
    EXPECT_TRUE(agent_.ends_in_time());
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
            close(pipes[1]);
            (void)!read(pipes[0], &byte, 1);  // until the test closes its end
            _exit(0);
        }
        _exit(child > 0 ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(agent_.ends_in_time());
    close(pipes[0]);
    close(pipes[1]);
}

TEST_F(AgentTest, GoesWithWhoStartedItIfNobodyHasCome) {
    agent_.give_up();
    EXPECT_TRUE(agent_.ends_in_time());
}

TEST(Agent, GoesIfNobodyComes) {
    const uint64_t begin = now_ns();  // before its own clock begins
    const RunningAgent agent(1);
    ASSERT_EQ(agent.error, "");
    EXPECT_TRUE(agent.ends_in_time());
    EXPECT_GE(now_ns() - begin, 2'000'000'000u) << "who is to come had less than twice the limit";
}

// What is still under way to its memory when a rank goes must not end the agent of the others.
TEST_F(AgentTest, OutlivesWhatIsAskedOfARankThatHasGone) {
    AgentClient stays;
    auto goes = std::make_unique<AgentClient>();
    std::string error;
    ASSERT_TRUE(connect(stays, &error) && connect(*goes, &error)) << error;
    OpenedMemory of_it, of_other;
    const auto bytes = some_bytes(5000, 3);
    ASSERT_TRUE(goes->open(0, 1 << 20, false, &of_it, &error) &&
                stays.open(0, 1 << 20, false, &of_other, &error))
        << error;
    Reacher reacher(agent_.address);
    ASSERT_TRUE(reacher.put(of_it, bytes, 0));
    EXPECT_EQ(memcmp(heap_.memory.data(), bytes.data(), bytes.size()), 0);
    memset(heap_.memory.data(), 0, bytes.size());
    const pid_t agent = pid();
    EXPECT_EQ(mappings(agent), 2u);
    goes->leave();
    goes.reset();
    EXPECT_TRUE(wait_until([&] { return mappings(agent) == 1; })) << "it has not noticed";
    reacher.put(of_it, bytes, 0);  // where to is nobody's business
    EXPECT_EQ(heap_.memory.data()[1], std::byte{0});
    std::vector<std::byte> got(bytes.size(), std::byte{1});
    EXPECT_TRUE(Reacher(agent_.address).get(of_other, 0, got));
    EXPECT_EQ(got[1], std::byte{0});
}

// Service processes may have been told to read there.
TEST_F(AgentTest, WhatARankGaveIsFoundAfterItWasKilled) {
    AgentClient stays;
    std::string error;
    ASSERT_TRUE(connect(stays, &error)) << error;
    OpenedMemory of_other;
    ASSERT_TRUE(stays.open(0, 4096, false, &of_other, &error)) << error;
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const auto given = some_bytes(300'000, 4);
    const pid_t rank = fork();
    if (rank == 0) {
        AgentClient client;
        OpenedMemory opened;
        if (!connect(client, &error) || !client.open(0, given.size(), false, &opened, &error)) _exit(1);
        memcpy(heap_.memory.data(), given.data(), given.size());
        (void)!write(pipes[1], &opened.address, sizeof opened.address);
        (void)!write(pipes[1], opened.key.data(), opened.key.size());
        kill(getpid(), SIGKILL);
    }
    close(pipes[1]);
    OpenedMemory opened;
    opened.key.resize(kHostKeyBytesMax);
    ASSERT_EQ(read(pipes[0], &opened.address, sizeof opened.address),
              static_cast<ssize_t>(sizeof opened.address));
    opened.key.resize(
        static_cast<size_t>(std::max<ssize_t>(read(pipes[0], opened.key.data(), kHostKeyBytesMax), 0)));
    close(pipes[0]);
    int status = 0;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    // It hears all its ranks before it hears any again.
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(stays.open(0, 4096, false, &of_other, &error)) << error;
    std::vector<std::byte> got(given.size());
    ASSERT_TRUE(Reacher(agent_.address).get(opened, 0, got));
    EXPECT_EQ(got, given);
}

// Over TCP, where no card looks at keys: what service processes still read is what the rank gave, and what
// they write is not its program's. Pieces may overlap.
TEST_F(AgentTest, WhatARankHasGivenUpIsItsOwn) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    OpenedMemory first, second;
    constexpr uint64_t kBytes = 100'000, kSecond = 40'000;
    ASSERT_TRUE(rank.open(0, kBytes, false, &first, &error) &&
                rank.open(kSecond, kBytes, false, &second, &error))
        << error;
    const auto given = some_bytes(kSecond + kBytes, 5), put = some_bytes(5000, 6);
    memcpy(heap_.memory.data(), given.data(), given.size());
    Reacher reacher(agent_.address);
    std::vector<std::byte> got(kBytes);
    ASSERT_TRUE(reacher.get(first, 0, got));

    rank.withdraw();
    memset(heap_.memory.data(), 0, given.size());
    if (reacher.put(first, put, kSecond)) {
        ASSERT_TRUE(reacher.get(second, 0, got));
        EXPECT_EQ(memcmp(got.data(), put.data(), put.size()), 0);
        EXPECT_EQ(memcmp(got.data() + put.size(), given.data() + kSecond + put.size(), kBytes - put.size()),
                  0);
        ASSERT_TRUE(reacher.get(first, 0, got));
        EXPECT_EQ(memcmp(got.data(), given.data(), kSecond), 0);
    }
    for (uint64_t i = 0; i < given.size(); ++i) ASSERT_EQ(heap_.memory.data()[i], std::byte{0}) << i;
    EXPECT_FALSE(rank.open(0, 4096, false, &first, &error)) << "what is withdrawn is withdrawn for good";
}

// One that has closed the connection still has the memory open.
TEST_F(AgentTest, IsKilledWhereItDoesNotLetGoOfARanksMemory) {
    AgentClient rank, other;
    std::string error;
    ASSERT_TRUE(connect(rank, &error) && connect(other, &error)) << error;
    OpenedMemory opened;
    ASSERT_TRUE(rank.open(0, 4096, false, &opened, &error)) << error;
    EXPECT_FALSE(rank.open(UINT64_MAX, 1, false, &opened, &error));
    ASSERT_TRUE(other.open(0, 4096, false, &opened, &error)) << error;
    rank.withdraw();
    EXPECT_TRUE(agent_.ends_in_time());
}

TEST_F(AgentTest, RefusesWhoDoesNotKnowTheToken) {
    AgentClient rank;
    Token wrong = agent_.ready.token;
    wrong[3] ^= 1;
    std::string error;
    EXPECT_FALSE(rank.connect(agent_.ready.name, wrong, heap_.file.get(), kLimitS, &error));
    EXPECT_NE(error, "");
    OpenedMemory opened;
    EXPECT_FALSE(rank.open(0, 4096, false, &opened, &error));
}

TEST_F(AgentTest, RefusesWhatIsNoSharedMemory) {
    std::string error;
    AgentClient rank;
    const auto gives = [&](int file) {
        return rank.connect(agent_.ready.name, agent_.ready.token, file, kLimitS, &error);
    };
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    const Fd growing(memfd_create("test-growing", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(growing.get(), kHeapBytes), 0);
    for (const int file : {null.get(), growing.get(), -1}) {
        EXPECT_FALSE(gives(file));
        EXPECT_NE(error.find("cannot be handed on"), std::string::npos) << error;
    }
    EXPECT_TRUE(gives(heap_.file.get())) << error;
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

TEST_F(AgentTest, MemoryThatGrowsIsOpenedAsItComes) {
    const Fd file(memfd_create("test-grows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    ASSERT_EQ(ftruncate(file.get(), kHeapBytes), 0);
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(rank.connect(agent_.ready.name, agent_.ready.token, file.get(), kLimitS, &error)) << error;
    OpenedMemory first, later;
    ASSERT_TRUE(rank.open(0, 4096, false, &first, &error)) << error;
    constexpr uint64_t kGrown = uint64_t{5} << 30;  // more than is mapped at first
    ASSERT_EQ(ftruncate(file.get(), kGrown), 0);
    ASSERT_TRUE(rank.open(kGrown - 4096, 4096, false, &later, &error)) << error;
    const auto bytes = some_bytes(4096, 3);
    ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), 0), 4096);
    ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), kGrown - 4096), 4096);
    Reacher reacher(agent_.address);
    for (const OpenedMemory& opened : {first, later}) {
        std::vector<std::byte> got(bytes.size());
        EXPECT_TRUE(reacher.get(opened, 0, got));
        EXPECT_EQ(got, bytes);
    }
}

TEST_F(AgentTest, ClosesOnWhoDoesNotKeepToTheProtocol) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    OpenedMemory opened;
    EXPECT_TRUE(rank.open(kHeapBytes - 1, 1, false, &opened, &error)) << error;

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

    ASSERT_TRUE(rank.open(0, 1, false, &opened, &error))
        << "the others have nothing to do with it: " << error;
}

TEST_F(AgentTest, OneThatSaysNothingIsNotWaitedFor) {
    const Fd silent = raw_connection();
    EXPECT_TRUE(is_closed(silent));
}

// Asleep at each look of a second, and woken a few times at most: neither says how long it then waits for a
// core.
bool sleeps_for_a_second(pid_t pid) {
    const auto woken = [&] {
        const std::string status = read_proc("/proc/" + std::to_string(pid) + "/status");
        const std::string name = "\nvoluntary_ctxt_switches:";
        const size_t at = status.find(name);
        return at == status.npos ? UINT64_MAX : strtoull(status.c_str() + at + name.size(), nullptr, 10);
    };
    const uint64_t before = woken();
    for (int looks = 0; looks < 100; ++looks) {
        if (state_of(pid) != 'S') return false;
        usleep(10'000);
    }
    return woken() - before <= 5;
}

TEST_F(AgentTest, SleepsWhenThereIsNothingToDo) {
    AgentClient rank;
    std::string error;
    ASSERT_TRUE(connect(rank, &error)) << error;
    const pid_t agent = pid();
    EXPECT_TRUE(wait_until([&] { return sleeps_for_a_second(agent); }));
}

}  // namespace
}  // namespace longshore::test
