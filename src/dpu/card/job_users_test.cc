// Jobs that run as users of their own, and what is so where they cannot.
#include <grp.h>
#include <sys/uio.h>

#include <array>
#include <sstream>

#include "dpu/card/gate_test_service.h"

namespace longshore {
namespace {

// Numbers of a line of /proc/PID/status.
std::vector<uint32_t> status(pid_t pid, const std::string& name) {
    std::istringstream lines(read_proc("/proc/" + std::to_string(pid) + "/status"));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name + ":")) continue;
        std::istringstream numbers(line.substr(name.size() + 1));
        return {std::istream_iterator<uint32_t>(numbers), std::istream_iterator<uint32_t>()};
    }
    return {};
}

uint32_t user_of(pid_t pid) {
    const std::vector<uint32_t> users = status(pid, "Uid");
    return users.empty() ? 0 : users[0];
}

// Where a process has memory that may be read.
uint64_t some_address(pid_t pid) {
    return std::stoull(read_proc("/proc/" + std::to_string(pid) + "/maps"), nullptr, 16);
}

// What a process of that user may do to another: an errno each, 0 where it may.
struct Attempts {
    int read_memory = -1, open_memory = -1, signal = -1;
};
Attempts attempts_of(uint32_t user, pid_t other, uint64_t address) {
    int ends[2];
    Attempts made;
    if (pipe2(ends, O_CLOEXEC) != 0) return made;
    const Fd hears(ends[0]);
    Fd tells(ends[1]);
    const pid_t child = fork();
    if (child == 0) {
        if (!become_user(user)) _exit(1);
        uint64_t word = 0;
        const iovec local{&word, sizeof word}, remote{reinterpret_cast<void*>(address), sizeof word};
        made.read_memory = process_vm_readv(other, &local, 1, &remote, 1, 0) == sizeof word ? 0 : errno;
        const std::string memory = "/proc/" + std::to_string(other) + "/mem";
        made.open_memory = open(memory.c_str(), O_RDWR) >= 0 ? 0 : errno;
        made.signal = kill(other, 0) == 0 ? 0 : errno;
        _exit(write(tells.get(), &made, sizeof made) != sizeof made);
    }
    tells.reset();
    EXPECT_EQ(read(hears.get(), &made, sizeof made), static_cast<ssize_t>(sizeof made));
    waitpid(child, nullptr, 0);
    return made;
}

TEST(JobUsers, JobsOfTheProgramCannotTouchEachOther) {
    SKIP_UNLESS_ROOT();
    const UserRange users = test_users(8);
    const gid_t group = 5;  // any: what the service is in its jobs are not
    ASSERT_EQ(setgroups(1, &group), 0);
    Service service(
        std::vector<std::string>{"--address", "127.0.0.1", "--port", "0", "--job-users", show(users)});
    setgroups(0, nullptr);
    service.find_port();
    Client one(service.port(), hello_of(1, 0));
    ASSERT_EQ(one.answer(), "welcome");
    Client two(service.port(), hello_of(2, 0)), also_one(service.port(), hello_of(1, 1));
    ASSERT_EQ(two.answer(), "welcome");
    ASSERT_EQ(also_one.answer(), "welcome");
    const std::vector<pid_t> pids = service.stand_ins();
    ASSERT_EQ(pids.size(), 3u);
    std::array<uint32_t, 3> ran_as{};
    for (size_t i = 0; i < 3; ++i) {
        ran_as[i] = user_of(pids[i]);
        EXPECT_GE(ran_as[i], users.first);
        EXPECT_LE(ran_as[i], users.last);
        EXPECT_EQ(status(pids[i], "Uid"), std::vector<uint32_t>(4, ran_as[i]));
        EXPECT_EQ(status(pids[i], "Gid"), std::vector<uint32_t>(4, ran_as[i]));
        EXPECT_EQ(status(pids[i], "Groups"), std::vector<uint32_t>());
        EXPECT_EQ(status(pids[i], "CapEff"), std::vector<uint32_t>{0});
    }
    EXPECT_EQ(ran_as[0], ran_as[2]) << "of one job";
    EXPECT_NE(ran_as[0], ran_as[1]) << "of two jobs";
    // What a job may do to itself shows that the attempts can succeed.
    const Attempts own = attempts_of(ran_as[0], pids[0], some_address(pids[0]));
    EXPECT_EQ(own.read_memory, 0);
    EXPECT_EQ(own.open_memory, 0);
    EXPECT_EQ(own.signal, 0);
    const Attempts others = attempts_of(ran_as[0], pids[1], some_address(pids[1]));
    EXPECT_EQ(others.read_memory, EPERM);
    EXPECT_EQ(others.open_memory, EACCES);
    EXPECT_EQ(others.signal, EPERM);
}

// A stand-in that was only forked would have what the service knows of all jobs in its memory.
TEST(JobUsers, AStandInOfTheProgramKnowsNothingOfOtherJobs) {
    SKIP_UNLESS_ROOT();
    Service service(std::vector<std::string>{"--address", "127.0.0.1", "--port", "0", "--job-users",
                                             show(test_users(8))});
    service.find_port();
    Client one(service.port(), hello_of(1, 0, 4, 0xa7)), two(service.port(), hello_of(2, 0, 4, 0xb5));
    ASSERT_EQ(one.answer(), "welcome");
    ASSERT_EQ(two.answer(), "welcome");
    const auto has_token = [](pid_t pid, uint8_t byte) {
        std::istringstream lines(read_proc("/proc/" + std::to_string(pid) + "/maps"));
        const Fd memory(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
        const std::string token(16, static_cast<char>(byte));
        for (std::string line; std::getline(lines, line);) {
            if (line.find(" rw") == line.npos) continue;
            const uint64_t begin = std::stoull(line, nullptr, 16);
            const uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
            std::string bytes(std::min<uint64_t>(end - begin, 1 << 24), '\0');
            const ssize_t got = pread(memory.get(), bytes.data(), bytes.size(), static_cast<off_t>(begin));
            if (got > 0 && bytes.find(token) != bytes.npos) return true;
        }
        return false;
    };
    const std::vector<pid_t> pids = service.stand_ins();
    ASSERT_EQ(pids.size(), 2u);
    const bool in_order = has_token(pids[0], 0xa7);
    EXPECT_TRUE(has_token(pids[in_order ? 1 : 0], 0xb5)) << "each knows its own";
    EXPECT_FALSE(has_token(pids[in_order ? 1 : 0], 0xa7));
    EXPECT_FALSE(has_token(pids[in_order ? 0 : 1], 0xb5));
}

TEST(JobUsers, AreRefusedWhenNoneIsFreeAndFreeWhenTheJobIsGone) {
    SKIP_UNLESS_ROOT();
    GateConfig config;
    config.job_users = test_users(2);
    Service service(config);
    const std::string none = "job_users of the DPU's service is " + show(config.job_users) +
                             ": all of them have jobs, or processes of jobs";
    Client one(service.port(), hello_of(1, 0)), two(service.port(), hello_of(2, 0));
    EXPECT_EQ(one.answer(), "welcome");
    EXPECT_EQ(two.answer(), "welcome");
    EXPECT_EQ(Client(service.port(), hello_of(3, 0)).answer(), none);
    Client more(service.port(), hello_of(2, 1));
    EXPECT_EQ(more.answer(), "welcome") << "a rank of a job that has its user";
    one.close();
    EXPECT_TRUE(service.says("job 0000000000000001 closed"));
    EXPECT_EQ(Client(service.port(), hello_of(3, 0)).answer(), "welcome");
    EXPECT_TRUE(two.is_served());
}

// A process may outlive the stand-ins of its job; so do whole jobs when the service is started again.
TEST(JobUsers, AreNotFreeWhileAProcessOfTheJobIsThere) {
    SKIP_UNLESS_ROOT();
    GateConfig config;
    config.job_users = test_users(1);
    Service service(config);
    Client one(service.port(), hello_of(14, 0));
    ASSERT_EQ(one.answer(), "welcome");
    const pid_t left = std::stoi(one.line());
    const std::unique_ptr<const pid_t, void (*)(const pid_t*)> killed(
        &left, [](const pid_t* process) { kill(*process, SIGKILL); });
    ASSERT_EQ(user_of(left), config.job_users.first);
    one.close();
    EXPECT_TRUE(service.says("job 000000000000000e closed"));
    EXPECT_NE(Client(service.port(), hello_of(2, 0)).answer().find("all of them have jobs, or processes"),
              std::string::npos);
    Service next(config);
    EXPECT_NE(Client(next.port(), hello_of(2, 0)).answer(), "welcome") << "another service sees it, too";
    kill(left, SIGKILL);
    EXPECT_TRUE(wait_for([&] { return Client(service.port(), hello_of(2, 0)).answer() == "welcome"; }));
}

constexpr const char* kOneAtATime = "the DPU's service has a job already and serves one at a time: ";

// What a service without users for its jobs does with a second one.
void expect_one_at_a_time(GateConfig config, uint32_t user, const std::string& why) {
    config.limit_s = 1;
    Service service(config, {}, user);
    EXPECT_TRUE(service.says("serves one job at a time: " + why));
    Client one(service.port(), hello_of(1, 0)), also_one(service.port(), hello_of(1, 1));
    EXPECT_EQ(one.answer(), "welcome");
    EXPECT_EQ(also_one.answer(), "welcome");
    const uint64_t begin = now_ns();
    EXPECT_EQ(Client(service.port(), hello_of(2, 0)).answer(), kOneAtATime + why);
    EXPECT_GT(now_ns() - begin, 500 * kMillisecondNs) << "it had the time for the first to end";
    EXPECT_TRUE(one.is_served());
    EXPECT_TRUE(also_one.is_served());
    for (const pid_t pid : service.stand_ins()) EXPECT_EQ(user_of(pid), user);
}

TEST(JobUsers, WithoutRootThereIsOneJobAtATime) {
    expect_one_at_a_time(several_jobs(), geteuid() == 0 ? test_users(1).first : geteuid(),
                         "it is not root, and can start them as no other users");
}

TEST(JobUsers, WithoutUsersThereIsOneJobAtATime) {
    SKIP_UNLESS_ROOT();
    expect_one_at_a_time(GateConfig{}, 0, "job_users is not set");
}

// One job after the other, as scripts start them.
TEST(JobUsers, TheNextJobWaitsForTheEndOfTheOneBefore) {
    Service service{GateConfig{}};
    Client one(service.port(), hello_of(1, 0));
    EXPECT_EQ(one.answer(), "welcome");
    Client next(service.port(), hello_of(2, 0)), gone(service.port(), hello_of(3, 0)),
        also_next(service.port(), hello_of(2, 1));
    EXPECT_TRUE(next.hears_nothing(200));
    gone.close();
    one.close();
    EXPECT_EQ(next.answer(), "welcome");
    EXPECT_EQ(also_next.answer(), "welcome");
    EXPECT_TRUE(next.is_served());
    EXPECT_TRUE(also_next.is_served());
}

}  // namespace
}  // namespace longshore
