// The standing service, by sockets, from friends and strangers.
#include "dpu/card/gate_test_service.h"

namespace longshore {
namespace {

TEST(Gate, RanksAreWelcomedAndServed) {
    Service service{GateConfig{}};
    std::vector<std::unique_ptr<Client>> ranks;
    // One after the other: the line names the rank that comes first.
    for (uint32_t rank = 0; rank < 4; ++rank) {
        ranks.push_back(std::make_unique<Client>(service.port(), hello_of(1, rank)));
        EXPECT_EQ(ranks.back()->answer(), "welcome");
    }
    for (auto& rank : ranks) EXPECT_TRUE(rank->is_served());
    EXPECT_TRUE(service.says("job 0000000000000001 opened: 4 ranks; rank 0 from 127.0.0.1\n"));
    ranks.clear();
    EXPECT_TRUE(service.says("job 0000000000000001 closed: 4 of 4 ranks, from 127.0.0.1\n"));
}

TEST(Gate, AHelloThatComesInPiecesIsOne) {
    Service service{GateConfig{}};
    Client client(service.port());
    for (const char byte : hello_frame(encode(hello_of(1, 0)))) client.send_raw(std::string(1, byte));
    EXPECT_EQ(client.answer(), "welcome");
    EXPECT_TRUE(client.is_served());
}

// What follows a hello is for the stand-in.
TEST(Gate, NothingBehindAHelloIsLost) {
    Service service{GateConfig{}};
    Client client(service.port());
    client.send_raw(hello_frame(encode(hello_of(1, 0))) +
                    frame(0, static_cast<uint16_t>(SessionKind::kDescribe), {}));
    EXPECT_EQ(client.answer(), "welcome");
    EXPECT_TRUE(client.is_served());
}

TEST(Gate, StrangersAreTurnedAwayAndOthersUnharmed) {
    Service service{GateConfig{}};
    Client friendly(service.port(), hello_of(1, 0));
    ASSERT_EQ(friendly.answer(), "welcome");
    auto body = encode(hello_of(2, 0));
    const std::string good = hello_frame(body);
    const std::span<const std::byte> half(body.data(), body.size() / 2);
    EXPECT_EQ(answer_to(service, "GET / HTTP/1.1\r\n\r\n"), "this is not a rank of a job with Longshore");
    EXPECT_EQ(answer_to(service, frame(0, static_cast<uint16_t>(SessionKind::kPost), {})),
              "this is not a rank of a job with Longshore");
    EXPECT_EQ(answer_to(service, hello_frame({})), "this is not a rank of a job with Longshore");
    EXPECT_EQ(answer_to(service, hello_frame(half)), "the first message is not whole");
    EXPECT_EQ(answer_to(service, hello_frame(body).append(1, 'x').replace(
                                     0, 1, 1, static_cast<char>(body.size() + 1))),
              "the first message is not whole");
    EXPECT_EQ(answer_to(service, frame(kHelloBytesMax + 1, static_cast<uint16_t>(SessionKind::kHello), body)),
              "a first message of 16385 bytes");
    EXPECT_EQ(answer_to(service, frame(UINT32_MAX, static_cast<uint16_t>(SessionKind::kHello), {})),
              "a first message of 4294967295 bytes");
    body[4] = std::byte{kSessionVersion + 1};
    EXPECT_EQ(answer_to(service, hello_frame(body)),
              "the rank speaks version " + std::to_string(kSessionVersion + 1) +
                  " of the protocol, this service version " + std::to_string(kSessionVersion) +
                  ": install the same Longshore on both");
    body[0] ^= std::byte{1};
    EXPECT_EQ(answer_to(service, hello_frame(body)), "this is not a rank of a job with Longshore");
    {
        Client client(service.port());
        client.send_raw(good.substr(0, good.size() - 1));
        client.end_sending();
        EXPECT_EQ(client.answer(), "it ended before it had said who it is");
        EXPECT_TRUE(client.is_closed());
        Client silent(service.port());
        silent.close();
    }
    EXPECT_TRUE(friendly.is_served());
    // Whose end it has not seen yet is not counted yet.
    const std::string refused =
        "refused: network 0, limit 0, slow 0, stranger 4, version 1, broken 6, value 0, token 0, "
        "rank 0, no process 0\n";
    EXPECT_TRUE(wait_for([&] {
        service.signal(SIGUSR1);
        usleep(10'000);
        return service.log().find(refused) != std::string::npos;
    })) << service.log();
    EXPECT_TRUE(service.says("1 jobs, 1 ranks"));
}

// Without a rank, a job or a stand-in.
TEST(Gate, WhetherARankCouldComeIsAnswered) {
    GateConfig config;
    config.allow = {read_ip_network("127.0.0.1").value()};
    Service service(config);
    const auto ask = [&](const char* from, std::byte version) {
        auto body = encode(hello_of(1, 0));
        body.resize(kSessionQuestionBytes);
        body[4] = version;
        Client client(service.port(), from);
        client.send_raw(hello_frame(body));
        const std::string answer = client.answer();
        EXPECT_TRUE(client.is_closed());
        return answer.substr(0, answer.find(' '));
    };
    EXPECT_EQ(ask("127.0.0.1", std::byte{kSessionVersion}), "welcome");
    EXPECT_EQ(ask("127.0.0.1", std::byte{kSessionVersion + 1}), "the");
    EXPECT_EQ(ask("127.0.0.2", std::byte{kSessionVersion}), "`allow`");
    service.signal(SIGUSR1);
    EXPECT_TRUE(service.says("0 jobs, 0 ranks")) << service.log();
    EXPECT_TRUE(service.says(
        "and 0 ranks ever; refused: network 1, limit 0, slow 0, stranger 0, version 1, broken 0"));
}

SessionTasks tasks_of(uint64_t job, uint8_t token = 7, uint32_t limit_s = 5) {
    SessionTasks tasks{job, {}, limit_s};
    tasks.token.fill(token);
    return tasks;
}

TEST(Gate, TasksAreOfAJobThatIsThere) {
    GateConfig config;
    config.task_folders = {"/opt/plugins"};
    config.task_processes_per_job_max = 2;
    Service service(config);
    const std::string unknown = "no such job, or not its token";
    EXPECT_EQ(Client(service.port(), tasks_of(1)).answer(), unknown);
    auto rank = std::make_unique<Client>(service.port(), hello_of(1, 0));
    EXPECT_EQ(rank->answer(), "welcome");
    EXPECT_EQ(Client(service.port(), tasks_of(1, 8)).answer(), unknown);
    EXPECT_EQ(Client(service.port(), tasks_of(2)).answer(), unknown);
    EXPECT_EQ(Client(service.port(), tasks_of(1, 7, 0)).answer(), "a carrier that waits for 0 s");
    EXPECT_EQ(Client(service.port(), tasks_of(1, 7, 3601)).answer(), "a carrier that waits for 3601 s");
    Client one(service.port(), tasks_of(1)), two(service.port(), tasks_of(1));
    EXPECT_EQ(one.answer(), "welcome");
    EXPECT_EQ(two.answer(), "welcome");
    EXPECT_EQ(
        Client(service.port(), tasks_of(1)).answer(),
        "task_processes_per_job_max of the DPU's service is 2: so many task processes of the job are there");
    EXPECT_FALSE(one.is_closed_now());
    // With its last rank all that is the job's goes.
    rank.reset();
    EXPECT_TRUE(one.is_closed());
    EXPECT_TRUE(two.is_closed());
    EXPECT_TRUE(wait_for([&] { return service.stand_ins().empty(); }));
    EXPECT_EQ(Client(service.port(), tasks_of(1)).answer(), unknown);
}

TEST(Gate, TheAgentOfAHostComesToTheStandInOfItsRank) {
    const auto copier = [](uint64_t job, uint32_t rank, uint8_t token = 7) {
        SessionCopier c{job, {}, rank};
        c.token.fill(token);
        return c;
    };
    Service service{GateConfig{}};
    const std::string unknown = "no such job, or not its token";
    EXPECT_EQ(Client(service.port(), copier(15, 1)).answer(), unknown);
    Client rank(service.port(), hello_of(15, 1));
    ASSERT_EQ(rank.answer(), "welcome");
    EXPECT_EQ(Client(service.port(), copier(15, 1, 8)).answer(), unknown);
    EXPECT_EQ(Client(service.port(), copier(15, 2)).answer(), "no such rank of the job is here");
    Client agent(service.port(), copier(15, 1));
    EXPECT_EQ(rank.line(), "an agent");
    EXPECT_EQ(agent.answer(), "welcome");
    EXPECT_TRUE(agent.is_closed());
}

TEST(Gate, WithoutFoldersThereAreNoTasks) {
    Service service{GateConfig{}};
    Client rank(service.port(), hello_of(1, 0));
    EXPECT_EQ(rank.answer(), "welcome");
    EXPECT_EQ(Client(service.port(), tasks_of(1)).answer(),
              "task_folders of the DPU's service is not set: it loads no plug-ins");
    auto body = encode(tasks_of(1));
    body.pop_back();
    EXPECT_EQ(answer_to(service, frame(static_cast<uint32_t>(body.size()),
                                       static_cast<uint16_t>(SessionKind::kTasks), body)),
              "the first message is not whole");
    EXPECT_TRUE(rank.is_served());
}

TEST(Gate, ValuesThatNoRankHasAreRefused) {
    Service service{GateConfig{}};
    const auto answer = [&](auto change) {
        SessionHello hello = hello_of(1, 0);
        change(hello);
        return Client(service.port(), hello).answer();
    };
    EXPECT_EQ(answer([](auto& h) { h.rank = 4; }), "there is no rank 4 of 4");
    EXPECT_NE(answer([](auto& h) { h.size = 0; }), "welcome");
    EXPECT_EQ(answer([](auto& h) { h.service_count = 0; }), "a job needs a service process at least");
    EXPECT_EQ(answer([](auto& h) { h.service_count = 17; }),
              "LONGSHORE_SERVICE_COUNT=17 is not valid: it must be a number from 0 to 16; 0 is as "
              "many as suit the job");
    for (const auto& change : std::vector<std::function<void(SessionHello&)>>{
             [](auto& h) { h.service_reads_max = 0; }, [](auto& h) { h.service_spin_us = 1000001; },
             [](auto& h) { h.service_restarts_max = 1001; }, [](auto& h) { h.limit_s = 0; },
             [](auto& h) { h.eager_bytes = 65537; }, [](auto& h) { h.chunk_bytes = 5000; },
             [](auto& h) { h.staging_bytes = uint64_t{1} << 40; }, [](auto& h) { h.cores = "2,x"; }})
        EXPECT_NE(answer(change).find(" is not valid: it must be "), std::string::npos);
    EXPECT_EQ(answer([](auto&) {}), "welcome");
}

TEST(Gate, WhoSaysNothingIsNotWaitedForLong) {
    GateConfig config;
    config.limit_s = 1;
    Service service(config);
    const uint64_t begin = now_ns();
    Client silent(service.port()), slow(service.port());
    slow.send_raw(hello_frame(encode(hello_of(1, 0))).substr(0, 20));
    // A stand-in that was started meanwhile does not keep their connections.
    Client friendly(service.port(), hello_of(1, 0));
    EXPECT_EQ(friendly.answer(), "welcome");
    for (Client* client : {&silent, &slow}) {
        EXPECT_EQ(client->answer(), "it did not say who it is in time (limit_s)");
        EXPECT_TRUE(client->is_closed());
    }
    EXPECT_GT(now_ns() - begin, 900 * kMillisecondNs);
    EXPECT_TRUE(friendly.is_served());
}

TEST(Gate, AJobIsForThoseWithItsToken) {
    SKIP_UNLESS_ROOT();
    Service service(several_jobs());
    Client first(service.port(), hello_of(1, 0));
    ASSERT_EQ(first.answer(), "welcome");
    EXPECT_EQ(Client(service.port(), hello_of(1, 1, 4, 8)).answer(), "not this job's token");
    // Not even what a job's ranks may hear.
    EXPECT_EQ(Client(service.port(), hello_of(1, 0, 8, 8)).answer(), "not this job's token");
    EXPECT_EQ(Client(service.port(), hello_of(1, 1, 5)).answer(), "the job has 4 ranks, not 5");
    EXPECT_EQ(Client(service.port(), hello_of(1, 0)).answer(), "rank 0 of the job is there already");
    Client second(service.port(), hello_of(1, 1)), other(service.port(), hello_of(2, 0, 4, 8));
    EXPECT_EQ(second.answer(), "welcome");
    EXPECT_EQ(other.answer(), "welcome");
    for (Client* client : {&first, &second, &other}) EXPECT_TRUE(client->is_served());
}

TEST(Gate, AJobIsForgottenWithItsLastRank) {
    Service service{GateConfig{}};
    {
        Client first(service.port(), hello_of(1, 0)), second(service.port(), hello_of(1, 1));
        EXPECT_EQ(first.answer(), "welcome");
        EXPECT_EQ(second.answer(), "welcome");
        first.close();
        // A rank that is gone may come again while others of its job are there, but with its token only.
        EXPECT_TRUE(wait_for([&] { return Client(service.port(), hello_of(1, 0)).answer() == "welcome"; }));
        EXPECT_EQ(Client(service.port(), hello_of(1, 0, 2, 9)).answer(), "not this job's token");
    }
    EXPECT_TRUE(service.says("job 0000000000000001 closed"));
    Client later(service.port(), hello_of(1, 0, 2, 9));
    EXPECT_EQ(later.answer(), "welcome");
    EXPECT_TRUE(later.is_served());
}

// Its job, too: another rank might wait for ever for what it was to do.
TEST(Gate, AStandInThatDiesHarmsItsJobAlone) {
    SKIP_UNLESS_ROOT();
    Service service(several_jobs());
    Client friendly(service.port(), hello_of(1, 0)), unlucky(service.port(), hello_of(13, 0)),
        second(service.port(), hello_of(13, 1));
    EXPECT_EQ(friendly.answer(), "welcome");
    EXPECT_EQ(unlucky.answer(), "welcome");
    EXPECT_EQ(second.answer(), "welcome");
    EXPECT_FALSE(unlucky.is_served());
    EXPECT_TRUE(unlucky.is_closed());
    EXPECT_TRUE(wait_for([&] { return second.is_closed(); }));
    EXPECT_TRUE(service.says(
        "job 000000000000000d closed: 2 of 4 ranks, from 127.0.0.1; 2 of their stand-ins failed, first "
        "of rank 0: signal 9\n"))
        << service.log();
    EXPECT_TRUE(friendly.is_served());
}

TEST(Gate, LimitsAreKeptAndNamed) {
    SKIP_UNLESS_ROOT();
    GateConfig config = several_jobs();
    config.jobs_max = 2;
    config.ranks_max = 5;
    config.ranks_per_job_max = 2;
    config.ranks_per_address_max = 4;
    Service service(config);
    const auto refusal = [&](const SessionHello& hello, const char* from = "127.0.0.1") {
        const std::string answer = Client(service.port(), hello, from).answer();
        return answer.substr(0, answer.find(' '));
    };
    Client a0(service.port(), hello_of(1, 0)), a1(service.port(), hello_of(1, 1));
    EXPECT_EQ(a0.answer(), "welcome");
    EXPECT_EQ(a1.answer(), "welcome");
    EXPECT_EQ(refusal(hello_of(1, 2)), "ranks_per_job_max");
    Client b0(service.port(), hello_of(2, 0));
    EXPECT_EQ(b0.answer(), "welcome");
    EXPECT_EQ(refusal(hello_of(3, 0)), "jobs_max");
    Client b1(service.port(), hello_of(2, 1));
    EXPECT_EQ(b1.answer(), "welcome");
    EXPECT_EQ(refusal(hello_of(2, 2)), "ranks_per_address_max");
    // One that has said nothing yet counts, too.
    Client silent(service.port(), "127.0.0.2");
    EXPECT_TRUE(wait_for([&] { return refusal(hello_of(2, 2), "127.0.0.3") == "ranks_max"; }));
    silent.close();
    b0.close();
    b1.close();
    EXPECT_TRUE(service.says("job 0000000000000002 closed"));
    EXPECT_EQ(Client(service.port(), hello_of(3, 0)).answer(), "welcome");
    EXPECT_TRUE(a0.is_served());
    EXPECT_TRUE(a1.is_served());
}

TEST(Gate, OneAddressCannotHaveAllJobs) {
    SKIP_UNLESS_ROOT();
    GateConfig config = several_jobs();
    config.jobs_max = 3;
    config.jobs_per_address_max = 2;
    Service service(config);
    Client first(service.port(), hello_of(1, 0)), second(service.port(), hello_of(2, 0));
    EXPECT_EQ(first.answer(), "welcome");
    EXPECT_EQ(second.answer(), "welcome");
    EXPECT_EQ(Client(service.port(), hello_of(3, 0)).answer(),
              "jobs_per_address_max of the DPU's service is 2: so many jobs of this address are there");
    // Ranks of jobs that are there may come, and a job of another address.
    Client more(service.port(), hello_of(2, 1)), other(service.port(), hello_of(3, 0), "127.0.0.2");
    EXPECT_EQ(more.answer(), "welcome");
    EXPECT_EQ(other.answer(), "welcome");
    second.close();
    more.close();
    EXPECT_TRUE(service.says("job 0000000000000002 closed"));
    other.close();
    EXPECT_TRUE(service.says("job 0000000000000003 closed"));
    EXPECT_EQ(Client(service.port(), hello_of(4, 0)).answer(), "welcome");
}

TEST(Gate, OnlyNetworksThatAreAllowedMayCome) {
    GateConfig config;
    config.allow = {read_ip_network("127.1.0.0/16").value(), read_ip_network("::1").value()};
    Service service(config);
    Client friendly(service.port(), hello_of(1, 0), "127.1.2.3");
    EXPECT_EQ(friendly.answer(), "welcome");
    EXPECT_EQ(Client(service.port(), hello_of(1, 1), "127.2.0.1").answer(),
              "`allow` of the DPU's service has no network with this address");
    EXPECT_TRUE(service.says("refused 127.2.0.1 (network)"));
    EXPECT_TRUE(friendly.is_served());
}

TEST(Gate, AConfigurationIsReadAgainUnlessItIsWrong) {
    SKIP_UNLESS_ROOT();
    const std::string users = "job_users = " + show(test_users(64)) + "\n";
    const std::string path = "/tmp/longshore-test-gate-" + std::to_string(getpid());
    const auto write = [&](const std::string& text) {
        FILE* file = fopen(path.c_str(), "we");
        fputs(text.c_str(), file);
        fclose(file);
    };
    Service service{several_jobs(), [&](GateConfig* config, std::string* error) {
                        return load_gate_config(path, config, error);
                    }};
    Client before(service.port(), hello_of(1, 0));
    EXPECT_EQ(before.answer(), "welcome");
    write("allow = 127.0.0.2\n" + users);
    service.signal(SIGHUP);
    EXPECT_TRUE(service.says("the configuration was read again"));
    EXPECT_NE(Client(service.port(), hello_of(2, 0)).answer(), "welcome");
    write("allow =\nranks_mux = 3\n");
    service.signal(SIGHUP);
    EXPECT_TRUE(service.says("the configuration stays as it was: " + path +
                             ": line 2: there is no setting \"ranks_mux\""));
    EXPECT_NE(Client(service.port(), hello_of(2, 0)).answer(), "welcome");
    EXPECT_EQ(Client(service.port(), hello_of(2, 0), "127.0.0.2").answer(), "welcome");
    EXPECT_TRUE(before.is_served()) << "who is there may stay";
    unlink(path.c_str());
}

TEST(Gate, JobsOutliveTheService) {
    Service service{GateConfig{}};
    Client rank(service.port(), hello_of(1, 0));
    EXPECT_EQ(rank.answer(), "welcome");
    service.signal(SIGTERM);
    EXPECT_EQ(service.end(), 0);
    EXPECT_NE(service.log().find("ends; 1 ranks of 1 jobs go on\n"), std::string::npos);
    EXPECT_TRUE(rank.is_served());
}

TEST(Gate, ManyRefusalsAreAFewLines) {
    Service service{GateConfig{}};
    const uint64_t begin = now_ns();
    constexpr int kRefusals = 300;
    for (int i = 0; i < kRefusals; ++i) EXPECT_NE(Client(service.port(), hello_of(1, 9)).answer(), "welcome");
    uint64_t lines = 0;
    EXPECT_TRUE(wait_for([&] {
        uint64_t told = lines = 0;
        const std::string log = service.log(), begin_of_line = "longshored: refused ";
        for (size_t at = 0; (at = log.find(begin_of_line, at)) != log.npos; ++lines) {
            at += begin_of_line.size();
            const bool is_sum = log.substr(at, log.find('\n', at) - at).ends_with(" more");
            told += is_sum ? std::stoul(log.substr(at)) : 1;
        }
        return told == kRefusals;
    })) << service.log();
    const uint64_t seconds = (now_ns() - begin) / (1000 * kMillisecondNs);
    EXPECT_LE(lines, 2 * (seconds + 1)) << service.log();
}

// --- the program

TEST(Listen, TheProgramListensAndRefusesStrangers) {
    Service service(std::vector<std::string>{"--address", "127.0.0.1", "--port", "0"});
    service.find_port();
    EXPECT_EQ(answer_to(service, "GET / HTTP/1.1\r\n\r\n"), "this is not a rank of a job with Longshore");
    Client rank(service.port(), hello_of(1, 0));
    EXPECT_EQ(rank.answer(), "welcome");
    service.signal(SIGTERM);
    EXPECT_EQ(service.end(), 0);
    rank.close();
}

uint64_t resident_most_bytes(pid_t pid) {
    const std::string status = read_proc("/proc/" + std::to_string(pid) + "/status");
    return std::stoull(status.substr(status.find("VmHWM:") + 6)) * 1024;
}

// What it is asked for is kept until it is read, and there is a limit to that.
TEST(Listen, ARankThatReadsNothingCostsItsStandInLittle) {
    // Else memory that was given back is kept there for long.
    setenv("ASAN_OPTIONS", "quarantine_size_mb=1", 1);
    Service service(std::vector<std::string>{"--address", "127.0.0.1", "--port", "0"});
    service.find_port();
    SessionHello hello = hello_of(1, 0);
    hello.limit_s = 100;  // after which the kernel ends the connection
    Client rank(service.port(), hello);
    ASSERT_EQ(rank.answer(), "welcome");
    const std::vector<pid_t> pids = service.stand_ins();
    ASSERT_EQ(pids.size(), 1u);
    const uint64_t before = resident_most_bytes(pids[0]);
    std::string asked;
    while (asked.size() < 1 << 16) asked += frame(0, static_cast<uint16_t>(SessionKind::kAskStats), {});
    constexpr int kTimes = 320;  // 20 MiB, and each answer is as long as its question
    EXPECT_FALSE(rank.send_often(asked, kTimes, pids[0])) << service.log();
    EXPECT_LT(resident_most_bytes(pids[0]) - before, uint64_t{8} << 20);
    EXPECT_FALSE(rank.is_closed_now());
    unsetenv("ASAN_OPTIONS");
}

// A frame is no longer than one that a rank of its job could send.
TEST(Listen, AFrameThatIsTooLongForItsJobEndsTheStandIn) {
    Service service(std::vector<std::string>{"--address", "127.0.0.1", "--port", "0"});
    service.find_port();
    Client rank(service.port(), hello_of(1, 0));
    ASSERT_EQ(rank.answer(), "welcome");
    rank.send_raw(frame(1 << 24, static_cast<uint16_t>(SessionKind::kExchanged), {}));
    EXPECT_TRUE(rank.is_closed());
}

TEST(Listen, TheProgramSaysWhatIsWrong) {
    const std::pair<std::vector<std::string>, std::string> cases[] = {
        {{"--config", "/nowhere.conf"}, "longshored listen: /nowhere.conf: No such file or directory\n"},
        {{"--port", "x"}, "longshored listen: --port = x: it must be a number from 0 to 65535\n"},
        {{"--prot", "1"}, "See 'longshored listen --help'.\n"},
        {{"now"}, "longshored listen: what is 'now'?\n"},
        {{"--check"},
         "longshored listen: allow is not set: name the hosts that this DPU serves (allow = 10.1.0.7/32), "
         "or "},
    };
    for (const auto& [words, said] : cases) {
        Service service(words);
        EXPECT_EQ(service.end(), 2);
        EXPECT_NE(service.log().find(said), std::string::npos) << service.log();
    }
    GateConfig config;
    config.port = 99;
    config.allow = {read_ip_network("10.1.0.7").value()};
    config.job_users = {70000, 70999};
    Service check(std::vector<std::string>{"--check", "--port", "99", "--allow", "10.1.0.7", "--job-users",
                                           "70000-70999"});
    EXPECT_EQ(check.end(), 0);
    EXPECT_EQ(check.log(), show(config));
    Service taken(std::vector<std::string>{"--address", "127.0.0.1", "--port", "0"});
    taken.find_port();
    Service late(std::vector<std::string>{"--address", "127.0.0.1", "--port", std::to_string(taken.port())});
    EXPECT_EQ(late.end(), 1);
    EXPECT_NE(late.log().find("Address already in use"), std::string::npos);
}

}  // namespace
}  // namespace longshore
