// Streams of the fabric over TCP: when they are made, and what becomes of them where there is no descriptor
// for them.
#include <dirent.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <string>

#include "fabric/descriptors.h"
#include "tcp_world.h"

namespace longshore::test {
namespace {

constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}},
    kC{NodeId{1}, ServiceId{1}};

// Sockets of this process that TCP has connected.
template <class Body>
void for_each_stream_end(const Body& body) {
    DIR* const all = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(all)) {
        sockaddr_storage peer;
        socklen_t bytes = sizeof peer;
        const int fd = atoi(entry->d_name);
        if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
            body(fd);
    }
    closedir(all);
}

// Both ends of each are here.
size_t streams() {
    size_t ends = 0;
    for_each_stream_end([&](int) { ++ends; });
    return ends / 2;
}

// The next descriptor would be this one.
rlim_t next_descriptor() {
    const Fd next(dup(0));
    return static_cast<rlim_t>(next.get());
}

class TcpConnections : public testing::Test {
  protected:
    ~TcpConnections() override { setrlimit(RLIMIT_NOFILE, &before_); }
    void allow_descriptors(rlim_t count) {
        const rlimit files{count, before_.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    }
    // A port that looks whether somebody has connected takes the next descriptor for that moment.
    void allow_no_more_descriptors() {
        const auto still = world_.hold_ports();
        allow_descriptors(next_descriptor());
    }
    bool turn_until(const std::function<bool()>& done) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (!done()) {
            if (std::chrono::steady_clock::now() > end) return false;
            for (const ServiceAddress at : {kA, kB, kC}) {
                FabricEvent events[8];
                const size_t count = world_.fabric(at).poll(events, 0);
                for (size_t i = 0; i < count; ++i) messages_ += events[i].kind == FabricEvent::Kind::kMessage;
                const std::string problem = world_.fabric(at).take_problem();
                if (!problem.empty()) problems_ += problem + "\n";
            }
        }
        return true;
    }
    bool send(ServiceAddress from, ServiceAddress to) {
        const uint32_t before = messages_;
        std::byte byte{};
        return turn_until([&] {
                   return world_.fabric(from).send(to, {&byte, 1}) == Post::kAccepted;
               }) &&
               turn_until([&] { return messages_ > before; });
    }
    void turn_for(std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        turn_until([&] { return std::chrono::steady_clock::now() > end; });
    }
    const rlimit before_ = [] {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        return files;
    }();
    static constexpr int kLimitS = 20;
    TcpWorld world_{false, false, kLimitS * 1'000'000'000ull};
    uint32_t messages_ = 0;
    std::string problems_;
};

TEST_F(TcpConnections, AreMadeWhenThereIsSomethingToSay) {
    turn_for(std::chrono::milliseconds(50));
    EXPECT_EQ(streams(), 0u);
    ASSERT_TRUE(send(kA, kB));
    ASSERT_TRUE(turn_until([] { return streams() == 2; })) << "one to talk, one for data";
    turn_for(std::chrono::milliseconds(50));
    EXPECT_EQ(streams(), 2u);
    ASSERT_TRUE(send(kB, kA));
    EXPECT_EQ(streams(), 2u) << "both directions share them";
    ASSERT_TRUE(send(kA, kC));
    ASSERT_TRUE(turn_until([] { return streams() == 4; }));
}

TEST_F(TcpConnections, WhoHasNoDescriptorToConnectTellsAndDoesSoLater) {
    allow_no_more_descriptors();
    std::byte byte{};
    world_.fabric(kA).send(kB, {&byte, 1});
    EXPECT_NE(world_.fabric(kA).take_problem().find("RLIMIT_NOFILE"), std::string::npos);
    allow_descriptors(before_.rlim_cur);
    EXPECT_TRUE(send(kA, kB));
}

TEST_F(TcpConnections, WhoHasNoDescriptorToBeConnectedTellsAndIsLater) {
    std::byte byte{};
    world_.fabric(kA).send(kB, {&byte, 1});
    std::string problem;
    for (const auto end = std::chrono::steady_clock::now() + in_time();
         problem.empty() && std::chrono::steady_clock::now() < end;) {
        // Until the port of its node has handed the stream on.
        FabricEvent events[8];
        world_.fabric(kA).poll(events, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        const auto still = world_.hold_ports();
        allow_descriptors(next_descriptor());
        world_.fabric(kB).poll(events, 0);
        allow_descriptors(before_.rlim_cur);
        problem = world_.fabric(kB).take_problem();
    }
    EXPECT_NE(problem.find("RLIMIT_NOFILE"), std::string::npos) << problem;
    EXPECT_TRUE(send(kA, kB));
}

// What is said of a peer that does not know the job's token, when it is given up; "": it is not.
std::string said_of_a_stranger(bool tls) {
    TcpWorld world(false, false, 250'000'000, tls);
    world.mistake_token(kB.node);
    world.lose(kA);
    world.restart(kA, 2);
    std::byte byte{};
    world.fabric(kA).send(kB, {&byte, 1});
    std::string problems;
    for (const auto end = std::chrono::steady_clock::now() + in_time();
         std::chrono::steady_clock::now() < end;) {
        FabricEvent events[8];
        world.fabric(kB).poll(events, 0);
        const size_t count = world.fabric(kA).poll(events, 1'000'000);
        problems += world.fabric(kA).take_problem() + "\n";
        for (size_t i = 0; i < count; ++i)
            if (events[i].kind == FabricEvent::Kind::kPeerLost) return problems;
    }
    return "";
}

// Whoever answers at a peer's address does not know its token: another job on a machine with the same
// address, say. No firewall is to blame.
TEST(WrongToken, IsTheReasonWhyAPeerCannotBeReached) {
    for (const bool tls : {false, true}) {
        const std::string problems = said_of_a_stranger(tls);
        const size_t said = problems.find("cannot be reached: ");
        ASSERT_NE(said, std::string::npos) << problems;
        const std::string why = problems.substr(said);
        EXPECT_NE(why.find("does not know the job's token"), std::string::npos) << why;
        EXPECT_EQ(why.find("firewall"), std::string::npos) << why;
    }
}

// Nobody is kept busy by one who cannot be let in.
TEST(PortWithoutDescriptors, TellsAndSleepsAndLetsThemInLater) {
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    std::string error;
    const std::unique_ptr<NodePort> port = NodePort::open(0, 0, 1, &error);
    ASSERT_TRUE(port) << error;
    const PortShare share = port->share(ServiceId{0});
    const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(share.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    std::byte preface[kPrefaceBytes];
    encode_preface(ServiceId{0}, preface);
    ASSERT_EQ(write(client.get(), preface, sizeof preface), static_cast<ssize_t>(sizeof preface));
    const auto is_readable = [&] {
        pollfd port_ready{port->fd(), POLLIN, 0};
        return poll(&port_ready, 1, 100) == 1;
    };
    ASSERT_TRUE(is_readable());
    const rlimit none{next_descriptor(), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    port->turn();
    EXPECT_NE(port->take_problem().find("RLIMIT_NOFILE"), std::string::npos);
    EXPECT_FALSE(is_readable());
    EXPECT_TRUE(port->busy()) << "it is to be looked at again";
    port->turn();
    EXPECT_EQ(port->take_problem(), "") << "once is enough";
    setrlimit(RLIMIT_NOFILE, &before);
    port->turn();
    port->turn();
    EXPECT_FALSE(port->busy());
    char word;
    size_t bytes = 0;
    std::vector<Fd> sockets;
    EXPECT_EQ(receive_packet(share.streams, &word, sizeof word, &bytes, &sockets), Io::kOk);
    EXPECT_EQ(sockets.size(), 1u);
}

TEST(Descriptors, AreRaisedToTheHardLimit) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    const rlimit fewer{files.rlim_max / 2, files.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &fewer), 0);
    EXPECT_EQ(raise_descriptor_limit(), files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
}

// Of both ends of the streams between two service processes those of talk ask, and late.
TEST_F(TcpConnections, OnlyTheStreamOfTalkAsksWhetherThePeerIsThere) {
    ASSERT_TRUE(send(kA, kB));
    ASSERT_TRUE(turn_until([] { return streams() == 2; }));
    turn_for(std::chrono::milliseconds(50));
    int asking = 0, silent = 0;
    for_each_stream_end([&](int fd) {
        int on = 0, idle_s = 0, timeout_ms = 0;
        socklen_t bytes = sizeof on;
        getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &bytes);
        getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &bytes);
        getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &bytes);
        on != 0 ? ++asking : ++silent;
        EXPECT_EQ(idle_s, 4 * kLimitS * slowness());
        EXPECT_EQ(timeout_ms, 0) << "it would end the stream of a process that is suspended";
    });
    EXPECT_EQ(asking, 2);
    EXPECT_EQ(silent, 2);
}

// A service process of a job of so many nodes, alone: the port of a neighbour refuses it, and another service
// process of its own node is not there yet, so that something is to be tried again all the time.
class Alone {
  public:
    explicit Alone(uint32_t nodes) {
        NodeLimits limits;
        limits.ranks_max = limits.records_max = 1;
        limits.services_max = kServices;
        limits.arena_bytes = limits.claims_bytes = limits.groups_bytes = 4096;
        const uint64_t bytes = NodeLayout::of(limits).total_bytes;
        mapping_ = Mapping::anonymous(bytes);
        ShmFabricOptions local;
        local.memory = NodeMemory::create(mapping_.data(), limits, kA.node, nodes, 1, kServices);
        local.self = kA;
        local.nodes.resize(nodes);
        for (NodeAddress& node : local.nodes) node.services = kServices;
        make_secret(&local.nodes[0].name, &local.nodes[0].token);
        for (int s = 0; s < kServices; ++s)
            local.doorbells.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        NetworkOptions network;
        network.memory = local.memory;
        network.self = kA;
        network.nodes = local.nodes;
        network.limit_ns = local.limit_ns = 20'000'000'000;
        TcpAddress here;
        here.bytes[0] = 127, here.bytes[3] = 1;
        constexpr uint16_t kNobody = 1;
        network.book.assign(nodes, {kServices, encode_addresses(std::span(&here, 1), kNobody)});
        std::string error;
        port_ = NodePort::open(0, 0, kServices, &error);
        TcpEnd end;
        NetworkSettings settings;
        strcpy(settings.interfaces, "lo");
        EXPECT_TRUE(end.open(settings, port_->share(kA.service), &error)) << error;
        fabric_ = TcpFabric::create(std::move(network), std::move(end),
                                    ShmFabric::create(std::move(local), &error), &error);
        EXPECT_TRUE(fabric_) << error;
    }
    // So often.
    void turn(uint32_t turns) {
        std::byte byte{};
        fabric_->send({kA.node, ServiceId{1}}, {&byte, 1});
        fabric_->send({NodeId{1}, ServiceId{0}}, {&byte, 1});
        FabricEvent events[8];
        for (uint32_t i = 0; i < turns; ++i) EXPECT_EQ(fabric_->poll(events, 0), 0u);
    }

  private:
    static constexpr uint16_t kServices = 2;
    Mapping mapping_;
    std::unique_ptr<NodePort> port_;
    std::unique_ptr<TcpFabric> fabric_;
};

// What turns cost tests/sim/test_instructions.py looks at, which says how many nodes the job has.
TEST(Turns, AreMadeHoweverManyPeersThereAre) {
    const char* const asked = getenv("LONGSHORE_INTERNAL_TEST_NODES");
    const uint64_t most = raise_descriptor_limit() / 4 - 100,
                   nodes = asked ? strtoull(asked, nullptr, 10) : 1024;
    if (nodes > most) GTEST_SKIP() << "the limit of open files is too low for a job of many nodes";
    Alone(static_cast<uint32_t>(nodes)).turn(5000);
}

TEST(ProbeTimes, BoundWhatIsSentInASecond) {
    constexpr uint64_t kSecond = 1'000'000'000, kLimit = 5 * kSecond;
    for (const uint64_t peers : {1, 10, 1023, 4092, 65534, 1 << 20}) {
        const ProbeTimes kernel = probe_times_of_kernel(kLimit, peers);
        const ProbeTimes process = probe_times_of_process(kLimit, peers);
        EXPECT_LE(peers * kSecond / kernel.idle_ns, kProbesPerSecond);
        EXPECT_LE(peers * kSecond / process.idle_ns, kProbesPerSecond);
        EXPECT_GE(kernel.silence_ns, kernel.idle_ns + 2 * kernel.step_ns) << "one lost probe ends nothing";
        EXPECT_GE(process.silence_ns, process.idle_ns + 2 * process.step_ns);
    }
    // With 1,024 nodes of one service process a dead link is noticed as soon as with two.
    EXPECT_EQ(probe_times_of_kernel(kLimit, 1).silence_ns, 25 * kSecond);
    EXPECT_EQ(probe_times_of_kernel(kLimit, 1023).silence_ns, 25 * kSecond);
    EXPECT_EQ(probe_times_of_kernel(kLimit, 4092).silence_ns, kSecond * 4592 / 100);
    EXPECT_EQ(probe_times_of_process(kLimit, 1).silence_ns, 30 * kSecond);
    EXPECT_EQ(probe_times_of_process(kLimit, 1023).silence_ns, 3 * kSecond * 1023 / 100);
}

// With 1,024 nodes: two streams for each of 1,023 others, four for itself, strangers and what every process
// has.
TEST(Descriptors, AreCountedAsTheyAreUsed) {
    EXPECT_EQ(descriptors_of_service(1024, 1, true), 2u * 1023 + 4 + 128);
    EXPECT_EQ(descriptors_of_service(1024, 2, true), 2u * 2046 + 8 + 128);
    EXPECT_EQ(descriptors_of_service(4, 1, false), 3u * 3 + 4 + 128);
    EXPECT_EQ(descriptors_of_supervisor(32, 1), 64u + 4 + 128);
}

}  // namespace
}  // namespace longshore::test
