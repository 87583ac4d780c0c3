// What reaches a service process by TCP from somebody who is not of its job, or who does not keep to the
// protocol: refused and counted, and those who do keep to it are served as before.
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>

#include "base/prng.h"
#include "tcp_world.h"

namespace longshore::test {
namespace {

constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}},
    kOther{NodeId{1}, ServiceId{1}};
constexpr LocalRank kRank0{0}, kRank1{1};

// A socket of somebody who says what he likes.
class Line {
  public:
    Line(uint16_t port, ServiceId service) : Line(port) {
        std::array<std::byte, kPrefaceBytes> preface;
        encode_preface(service, preface);
        say(preface);
    }
    // Who does not say for whom it is.
    explicit Line(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0) << strerror(errno);
    }
    void say(std::span<const std::byte> bytes) const {
        [[maybe_unused]] const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    // Of what has come so far.
    size_t hear(std::span<std::byte> to) const {
        const ssize_t got = recv(fd_.get(), to.data(), to.size(), MSG_DONTWAIT);
        return got > 0 ? static_cast<size_t>(got) : 0;
    }
    bool is_closed() const {
        std::byte byte;
        const ssize_t got = recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        return got == 0 || (got < 0 && errno != EAGAIN);
    }

  private:
    Fd fd_;
};

class TcpHostile : public testing::Test {
  protected:
    TcpHostile() {
        std::vector<TcpAddress> addresses;
        EXPECT_TRUE(decode_addresses(world_.book()[0][0], &addresses, &port_));
    }
    void turn(int times = 20) {
        FabricEvent events[8];
        for (int i = 0; i < times; ++i) {
            for (const ServiceAddress at : {kA, kB}) {
                const size_t count = world_.fabric(at).poll(events, 0);
                for (size_t e = 0; e < count; ++e) messages_ += events[e].kind == FabricEvent::Kind::kMessage;
            }
        }
    }
    bool turn_until(const std::function<bool()>& done) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        bool is_done = done();
        while (!is_done && std::chrono::steady_clock::now() < end) {
            turn(1);
            is_done = done();
        }
        return is_done;
    }
    uint64_t refused() { return world_.fabric(kA).counters().refused; }
    bool turn_until_refused() {
        return turn_until([&] { return refused() > 0; });
    }
    static Hello hello(StreamKind kind = StreamKind::kTalk) {
        Hello hello;
        hello.kind = kind;
        hello.from = kOther;
        hello.to = kA;
        hello.incarnation = 1;
        hello.connection = 77;
        return hello;
    }
    void say(const Line& line, const Hello& hello) {
        std::array<std::byte, kHelloBytes> bytes;
        encode_hello(hello, bytes);
        line.say(bytes);
    }
    // The whole handshake, as one of the job would do it. False: A does not go along.
    bool shake_hands(const Line& line, const Hello& hello) {
        std::array<std::byte, kHelloBytes> said;
        encode_hello(hello, said);
        line.say(said);
        std::array<std::byte, kChallengeBytes> challenge;
        size_t have = 0;
        if (!turn_until([&] {
                have += line.hear(std::span(challenge).subspan(have));
                return have == challenge.size() || line.is_closed();
            }) ||
            have != challenge.size())
            return false;
        const NodeAddress& node = world_.nodes()[0];
        line.say(prove(node.token, ProofRole::kConnects, node.name, said, challenge));
        std::array<std::byte, kWelcomeBytes> welcome;
        have = 0;
        return turn_until([&] {
                   have += line.hear(std::span(welcome).subspan(have));
                   return have == welcome.size() || line.is_closed();
               }) &&
               have == welcome.size() && is_welcome(welcome);
    }
    static Talk here() {
        Talk talk;
        talk.kind = TalkKind::kHere;
        return talk;
    }
    static void say(const Line& line, const Talk& talk) {
        std::byte bytes[kTalkBytesMax];
        line.say(std::span(bytes).first(encode_talk(talk, bytes)));
    }
    static void say(const Line& line, const DataHeader& header, size_t bytes) {
        std::vector<std::byte> all(kDataHeaderBytes + bytes, std::byte{0x77});
        encode_data(header, std::span<std::byte, kDataHeaderBytes>(all.data(), kDataHeaderBytes));
        line.say(all);
    }
    // What was said before it has been taken.
    void line_pause() {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
        while (std::chrono::steady_clock::now() < end) turn();
    }
    RegionName from_b() { return world_.name(kB.node, kRank1); }
    // A reads of B as if nothing had happened.
    void expect_service() {
        Fabric& a = world_.fabric(kA);
        memset(world_.bytes(kB.node, kRank1), 0x3d, 300000);
        memset(world_.bytes(kA.node, kRank0), 0, 300000);
        FabricEvent event;
        ASSERT_EQ(a.read(kB, from_b(), 0, {kRank0, FabricWorld::kUserRegion, 0}, 300000, 2), Post::kAccepted);
        EXPECT_TRUE(wait_for_event(FabricEvent::Kind::kMoved, &event));
        EXPECT_EQ(event.result, MoveResult::kMoved);
        EXPECT_EQ(memcmp(world_.bytes(kA.node, kRank0), world_.bytes(kB.node, kRank1), 300000), 0);
    }
    bool wait_for_event(FabricEvent::Kind kind, FabricEvent* event) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (std::chrono::steady_clock::now() < end) {
            FabricEvent of_b;
            world_.fabric(kB).poll({&of_b, 1}, 0);
            if (world_.fabric(kA).poll({event, 1}, 0) == 1 && event->kind == kind) return true;
        }
        return false;
    }
    void SetUp() override { memset(world_.bytes(kA.node, kRank0), 0, FabricWorld::kRegionBytes); }
    void expect_nothing_written() {
        for (uint64_t i = 0; i < FabricWorld::kRegionBytes; ++i)
            ASSERT_EQ(world_.bytes(kA.node, kRank0)[i], std::byte{0}) << i;
    }
    TcpWorld world_{false, false, 2'000'000'000};
    uint16_t port_ = 0;
    uint64_t messages_ = 0;
};

// Somebody who looks what listens there gets no byte, and is shown out in time: at the node's port, and at a
// service process.
TEST_F(TcpHostile, APortScannerHearsNothing) {
    const Line silent(port_), silent_inside(port_, kA.service);
    const Line talker(port_), talker_inside(port_, kA.service);
    const auto words = std::as_bytes(std::span("GET / HTTP/1.1\r\nHost: a-name-that-is-long-enough\r\n\r\n"));
    talker.say(words);
    talker_inside.say(words);
    std::byte bytes[64];
    for (const Line* const line : {&talker, &talker_inside, &silent, &silent_inside}) {
        EXPECT_TRUE(turn_until([&] { return line->is_closed(); }));
        EXPECT_EQ(line->hear(bytes), 0u);
    }
    EXPECT_NE(world_.fabric(kA).take_problem(), "");
    EXPECT_EQ(world_.refused_at_port(kA.node), 2u);
    expect_service();
}

TEST_F(TcpHostile, AServiceProcessThatIsNotThereIsRefused) {
    const Line line(port_, ServiceId{77});
    EXPECT_TRUE(turn_until([&] { return line.is_closed(); }));
    EXPECT_EQ(world_.refused_at_port(kA.node), 1u);
    expect_service();
}

TEST_F(TcpHostile, AnotherVersionIsRefused) {
    std::array<std::byte, kHelloBytes> bytes;
    encode_hello(hello(), bytes);
    bytes[4] = std::byte{kTcpVersion + 1};
    const Line line(port_, kA.service);
    line.say(bytes);
    EXPECT_TRUE(turn_until_refused());
    EXPECT_TRUE(line.is_closed());
    expect_service();
}

TEST_F(TcpHostile, WhoIsNotOfTheJobsNodesIsRefused) {
    for (int i = 0; i < 4; ++i) {
        Hello wrong = hello();
        if (i == 0) wrong.to = kB;
        if (i == 1) wrong.from = {NodeId{7}, ServiceId{0}};
        if (i == 2) wrong.from = {NodeId{1}, ServiceId{9}};
        if (i == 3) wrong.from = {NodeId{0}, ServiceId{1}};
        const Line line(port_, kA.service);
        const uint64_t before = refused();
        say(line, wrong);
        EXPECT_TRUE(turn_until([&] { return refused() > before; })) << i;
    }
    expect_service();
}

TEST_F(TcpHostile, AWrongProofIsRefused) {
    const Line line(port_, kA.service);
    say(line, hello());
    std::array<std::byte, kChallengeBytes> challenge;
    ASSERT_TRUE(turn_until([&] { return line.hear(challenge) == challenge.size(); }));
    line.say(Proof{});
    EXPECT_TRUE(turn_until_refused());
    EXPECT_TRUE(line.is_closed());
    expect_service();
}

// A's own proof, sent back to it.
TEST_F(TcpHostile, AReflectedProofIsRefused) {
    const Line line(port_, kA.service);
    say(line, hello());
    std::array<std::byte, kChallengeBytes> bytes;
    ASSERT_TRUE(turn_until([&] { return line.hear(bytes) == bytes.size(); }));
    Challenge challenge;
    ASSERT_TRUE(decode_challenge(bytes, &challenge));
    line.say(challenge.proof);
    EXPECT_TRUE(turn_until_refused());
    EXPECT_TRUE(line.is_closed());
    expect_service();
}

// What one of the job has said on another stream.
TEST_F(TcpHostile, AReplayedProofIsRefused) {
    const Line recorded(port_, kA.service);
    std::array<std::byte, kHelloBytes> said;
    encode_hello(hello(), said);
    recorded.say(said);
    std::array<std::byte, kChallengeBytes> challenge;
    ASSERT_TRUE(turn_until([&] { return recorded.hear(challenge) == challenge.size(); }));
    const NodeAddress& node = world_.nodes()[0];
    const Proof proof = prove(node.token, ProofRole::kConnects, node.name, said, challenge);
    const Line line(port_, kA.service);
    line.say(said);
    ASSERT_TRUE(turn_until([&] { return line.hear(challenge) == challenge.size(); }));
    line.say(proof);
    EXPECT_TRUE(turn_until_refused());
    EXPECT_TRUE(line.is_closed());
    expect_service();
}

// Another job's service process, or one of another life, proves something else.
TEST_F(TcpHostile, AProofIsOfOneJobLifeAndStream) {
    const NodeAddress& node = world_.nodes()[0];
    std::array<std::byte, kHelloBytes> said;
    encode_hello(hello(), said);
    Challenge challenge;
    challenge.incarnation = 1;
    std::array<std::byte, kChallengeBytes> asked;
    encode_challenge(challenge, asked);
    const Proof proof = prove(node.token, ProofRole::kConnects, node.name, said, asked);
    EXPECT_TRUE(same_proof(proof, prove(node.token, ProofRole::kConnects, node.name, said, asked)));
    const auto differs = [&](const Hello& h, const Challenge& c, const SocketName& job, ProofRole role) {
        std::array<std::byte, kHelloBytes> s;
        encode_hello(h, s);
        std::array<std::byte, kChallengeBytes> a;
        encode_challenge(c, a);
        return !same_proof(proof, prove(node.token, role, job, s, a));
    };
    Hello other = hello();
    other.incarnation = 2;
    EXPECT_TRUE(differs(other, challenge, node.name, ProofRole::kConnects));
    other = hello(StreamKind::kData);
    EXPECT_TRUE(differs(other, challenge, node.name, ProofRole::kConnects));
    other = hello();
    other.from = kB;
    EXPECT_TRUE(differs(other, challenge, node.name, ProofRole::kConnects));
    Challenge later = challenge;
    later.incarnation = 2;
    EXPECT_TRUE(differs(hello(), later, node.name, ProofRole::kConnects));
    EXPECT_TRUE(differs(hello(), challenge, world_.nodes()[1].name, ProofRole::kConnects));
    EXPECT_TRUE(differs(hello(), challenge, node.name, ProofRole::kAccepts));
}

// So many strangers at once that each is shown out for the next: the job's own get in all the same.
TEST_F(TcpHostile, AFloodOfStrangersKeepsNobodyOut) {
    std::vector<std::unique_ptr<Line>> at_port, inside;
    for (size_t i = 0; i < 4 * Door::kStrangersMax; ++i) {
        at_port.push_back(std::make_unique<Line>(port_));
        inside.push_back(std::make_unique<Line>(port_, kA.service));
        if (i % 16 == 0) turn(1);
    }
    const auto open = [](const auto& lines) {
        return static_cast<size_t>(
            std::count_if(lines.begin(), lines.end(), [](const auto& line) { return !line->is_closed(); }));
    };
    EXPECT_TRUE(turn_until([&] { return open(at_port) <= NodePort::kStrangersMax; }));
    EXPECT_TRUE(turn_until([&] { return open(inside) <= Door::kStrangersMax; }));
    expect_service();
}

TEST_F(TcpHostile, DataWithoutTalkIsRefused) {
    const Line line(port_, kA.service);
    EXPECT_FALSE(shake_hands(line, hello(StreamKind::kData)));
    expect_service();
}

TEST_F(TcpHostile, NobodyTakesThePlaceOfWhoIsThere) {
    const Line first(port_, kA.service);
    ASSERT_TRUE(shake_hands(first, hello()));
    say(first, here());
    turn();
    const Line second(port_, kA.service);
    EXPECT_FALSE(shake_hands(second, hello()));
    EXPECT_FALSE(first.is_closed());
    Hello former = hello();
    former.incarnation = 0;
    const Line third(port_, kA.service);
    EXPECT_FALSE(shake_hands(third, former));
    EXPECT_FALSE(first.is_closed());
    expect_service();
}

// One that is late may give its handshake up when A has welcomed it already, and connects anew.
TEST_F(TcpHostile, WhoGaveUpAWelcomeConnectsAgain) {
    const Line first(port_, kA.service), second(port_, kA.service);
    ASSERT_TRUE(shake_hands(first, hello()));
    Hello anew = hello();
    anew.connection = 78;
    ASSERT_TRUE(shake_hands(second, anew));
    EXPECT_TRUE(turn_until([&] { return first.is_closed(); }));
    say(second, here());
    turn();
    EXPECT_FALSE(second.is_closed());
    EXPECT_EQ(world_.fabric(kA).send(kOther, std::as_bytes(std::span("a frame"))), Post::kAccepted);
}

// Or is connected by A. Nothing that A had to say is lost.
TEST_F(TcpHostile, WhoGaveUpAWelcomeIsConnectedAgain) {
    Fabric &a = world_.fabric(kA), &other = world_.fabric(kOther);
    const auto frame = std::as_bytes(std::span("said once"));
    FabricEvent event;
    {
        const Line line(port_, kA.service);
        ASSERT_TRUE(shake_hands(line, hello()));
        EXPECT_EQ(a.send(kOther, frame), Post::kAgain) << "said to one that may be gone";
    }
    ASSERT_TRUE(turn_until([&] {
        other.poll({&event, 1}, 0);
        return a.send(kOther, frame) == Post::kAccepted;
    }));
    EXPECT_TRUE(turn_until([&] {
        return other.poll({&event, 1}, 0) == 1 && event.kind == FabricEvent::Kind::kMessage &&
               event.peer == kA;
    }));
}

// --- Who has the token, but does not keep to the protocol, loses its streams.

TEST_F(TcpHostile, NoiseEndsTheConnection) {
    const Line line(port_, kA.service);
    ASSERT_TRUE(shake_hands(line, hello()));
    line.say(std::vector<std::byte>(1000, std::byte{0x53}));
    EXPECT_TRUE(turn_until([&] { return line.is_closed(); }));
    EXPECT_EQ(messages_, 0u);
    expect_service();
}

TEST_F(TcpHostile, AReadBeyondARegionMovesNothing) {
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    memset(world_.bytes(kA.node, kRank0), 0x11, FabricWorld::kRegionBytes);
    Talk request;
    request.kind = TalkKind::kRequest;
    const auto expect_refusal = [&] {
        say(talk, request);
        std::array<std::byte, kDataHeaderBytes + 64> answer;
        size_t have = 0;
        ASSERT_TRUE(turn_until([&] {
            have += data.hear(std::span(answer).subspan(have));
            return have >= kDataHeaderBytes;
        }));
        turn();
        have += data.hear(std::span(answer).subspan(have));
        DataHeader header;
        EXPECT_TRUE(decode_data(std::span(answer).first<kDataHeaderBytes>(), &header));
        EXPECT_NE(header.result, MoveResult::kMoved);
        EXPECT_EQ(have, kDataHeaderBytes);
    };
    request.region = world_.name(NodeId{0}, kRank0);
    request.offset = FabricWorld::kRegionBytes - 3;
    request.bytes = 4;
    expect_refusal();
    request.region.generation += 2;
    request.offset = 0;
    expect_refusal();
    request.region = {kStaging, RegionId{0}, 1};
    request.offset = FabricWorld::kStagingBytes;
    expect_refusal();
    request.region = {LocalRank{500}, RegionId{500}, 1};
    expect_refusal();
    // Each time it is said that less comes than was asked for: who waits for all of it must not.
    std::array<std::byte, 5 * kTalkHeaderBytes> said;
    size_t have = 0;
    EXPECT_TRUE(turn_until(
        [&] { return (have += talk.hear(std::span(said).subspan(have))) == 4 * kTalkHeaderBytes; }));
    for (size_t i = 0; i < 4; ++i) {
        Talk fewer;
        EXPECT_TRUE(decode_talk(std::span(said).subspan(i * kTalkHeaderBytes, kTalkHeaderBytes), &fewer));
        EXPECT_EQ(fewer.kind, TalkKind::kFewer);
    }
    request.offset = UINT64_MAX - 1;
    say(talk, request);
    EXPECT_TRUE(turn_until([&] { return talk.is_closed(); }));
    expect_service();
}

TEST_F(TcpHostile, BytesThatNobodyAskedForAreWrittenNowhere) {
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    DataHeader header;
    header.id = 12345;
    header.bytes = 100000;
    say(data, header, header.bytes);
    EXPECT_TRUE(turn_until([&] { return world_.fabric(kA).counters().dropped > 0; }));
    turn();
    EXPECT_FALSE(talk.is_closed());
    expect_nothing_written();
    expect_service();
}

TEST_F(TcpHostile, MoreBytesThanWereAskedForEndTheConnection) {
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    Fabric& a = world_.fabric(kA);
    FabricEvent event;
    ASSERT_EQ(a.read(kOther, from_b(), 0, {kRank0, FabricWorld::kUserRegion, 0}, 1000, 2), Post::kAccepted);
    std::byte heard[kTalkBytesMax];
    Talk request;
    ASSERT_TRUE(turn_until([&] {
        const size_t bytes = talk.hear(heard);
        return bytes != 0 && decode_talk(std::span(heard).first(bytes), &request);
    }));
    ASSERT_EQ(request.kind, TalkKind::kRequest);
    DataHeader header;
    header.id = request.id;
    header.bytes = 1001;
    say(data, header, header.bytes);
    EXPECT_TRUE(turn_until([&] { return talk.is_closed(); }));
    expect_nothing_written();
    expect_service();
}

// Whether bytes hold is said of an open piece, in the header behind it.
TEST_F(TcpHostile, BytesOfWhichNothingIsSaidAreNotTaken) {
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    DataHeader header;
    header.id = 12345;
    header.is_open = true;
    header.bytes = 1000;
    say(data, header, header.bytes);
    say(data, header, header.bytes);
    EXPECT_TRUE(turn_until([&] { return talk.is_closed(); }));
    expect_service();
}

TEST_F(TcpHostile, NothingIsSaidOfBytesThatWereNotOpen) {
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    DataHeader header;
    header.id = 12345;
    say(data, header, 0);
    EXPECT_TRUE(turn_until([&] { return talk.is_closed(); }));
    expect_service();
}

// A service process is woken when it is worth it, by what has come lately: of blocks that are sent ahead, and
// of those that it asks for, the last bytes come alone.
TEST_F(TcpHostile, BytesThatComeInPiecesAreAllTaken) {
    constexpr uint32_t kBytes = 60'000;
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    say(talk, here());
    Fabric& a = world_.fabric(kA);
    FabricEvent event;
    for (const bool ahead : {true, false}) {
        DataHeader header;
        header.ahead = ahead;
        header.bytes = kBytes;
        const BlockName block{{GroupId{3}, 1}, Rank{1}, 0};
        if (ahead) {
            Talk announced;
            announced.kind = TalkKind::kAhead;
            announced.id = header.id = 1;
            announced.block = block;
            announced.bytes = kBytes;
            say(talk, announced);
            Talk frame;
            const std::byte byte{};
            frame.frame = {&byte, 1};
            say(talk, frame);
            ASSERT_TRUE(wait_for_event(FabricEvent::Kind::kMessage, &event));
        }
        const AlongPart part{block, 0};
        ASSERT_EQ(a.read(kOther, from_b(), 0, {kRank0, FabricWorld::kUserRegion, 0}, kBytes, 2,
                         ahead ? &part : nullptr),
                  Post::kAccepted);
        std::byte heard[kTalkBytesMax];
        size_t have = 0, at = 0;
        EXPECT_TRUE(ahead || turn_until([&] {
                        have += talk.hear(std::span(heard).subspan(have));
                        while (header.id == 0 && have - at >= kTalkHeaderBytes) {
                            const std::span<const std::byte> rest(heard + at, have - at);
                            const size_t bytes =
                                kTalkHeaderBytes + talk_body_bytes(rest.first<kTalkHeaderBytes>());
                            Talk said;
                            if (bytes > rest.size() || !decode_talk(rest.first(bytes), &said)) break;
                            if (said.kind == TalkKind::kRequest) header.id = said.id;
                            at += bytes;
                        }
                        return header.id != 0;
                    }));
        std::vector<std::byte> all(kDataHeaderBytes + kBytes, std::byte{0x77});
        encode_data(header, std::span<std::byte, kDataHeaderBytes>(all.data(), kDataHeaderBytes));
        const size_t begins[] = {0, all.size() - 20, all.size()};
        for (size_t i = 0; i + 1 < std::size(begins); ++i) {
            line_pause();
            data.say(std::span(all).subspan(begins[i], begins[i + 1] - begins[i]));
        }
        EXPECT_TRUE(wait_for_event(FabricEvent::Kind::kMoved, &event)) << ahead;
        EXPECT_EQ(event.result, MoveResult::kMoved);
        EXPECT_EQ(world_.bytes(kA.node, kRank0)[kBytes - 1], std::byte{0x77});
    }
    expect_service();
}

TEST_F(TcpHostile, MoreThanTheWindowSentAheadEndsTheConnection) {
    const Line line(port_, kA.service);
    ASSERT_TRUE(shake_hands(line, hello()));
    Talk talk;
    talk.kind = TalkKind::kAhead;
    for (talk.id = 1; talk.id <= 5; ++talk.id) {
        talk.bytes = 1u << 20;
        talk.block.source = Rank{static_cast<uint32_t>(talk.id)};
        say(line, talk);
    }
    EXPECT_TRUE(turn_until([&] { return line.is_closed(); }));
    expect_service();
}

TEST_F(TcpHostile, APieceBeyondItsBlockEndsTheConnection) {
    const Line talk(port_, kA.service), data(port_, kA.service);
    ASSERT_TRUE(shake_hands(talk, hello()));
    ASSERT_TRUE(shake_hands(data, hello(StreamKind::kData)));
    Talk ahead;
    ahead.kind = TalkKind::kAhead;
    ahead.id = 1;
    ahead.bytes = 1000;
    say(talk, ahead);
    DataHeader header;
    header.ahead = true;
    header.id = 1;
    header.bytes = 1001;
    say(data, header, header.bytes);
    EXPECT_TRUE(turn_until([&] { return talk.is_closed(); }));
    expect_service();
}

TEST_F(TcpHostile, MoreUsedThanWasSentEndsTheConnection) {
    const Line line(port_, kA.service);
    ASSERT_TRUE(shake_hands(line, hello()));
    Talk talk;
    talk.kind = TalkKind::kUsed;
    talk.used = 1;
    say(line, talk);
    EXPECT_TRUE(turn_until([&] { return line.is_closed(); }));
    expect_service();
}

// With a handshake as it should be, anything in the other fields.
TEST_F(TcpHostile, RandomFieldsDoNoHarm) {
    Prng random(7);
    for (uint32_t life = 1; life <= 200; ++life) {
        Hello who = hello();
        who.incarnation = life;
        const Line talk(port_, kA.service);
        ASSERT_TRUE(shake_hands(talk, who)) << life;
        who.kind = StreamKind::kData;
        const Line data(port_, kA.service);
        const bool has_data = random.chance(700) && shake_hands(data, who);
        for (int i = 0; i < 20; ++i) {
            Talk message;
            message.kind = static_cast<TalkKind>(1 + random.below(5));
            const std::array<std::byte, 100> frame{};
            message.frame = std::span(frame).first(random.below(100));
            message.id = random.chance(500) ? static_cast<uint64_t>(i) : random.next() >> random.below(64);
            message.region = {LocalRank{static_cast<uint16_t>(random.below(4))},
                              RegionId{static_cast<uint32_t>(random.below(4))},
                              static_cast<uint32_t>(random.below(3))};
            message.block.source = Rank{static_cast<uint32_t>(random.below(3))};
            message.offset = random.next() >> random.below(64);
            message.bytes = random.next() >> random.below(64);
            message.used = random.chance(900) ? 0 : random.next();
            say(talk, message);
            if (!has_data) continue;
            DataHeader header;
            header.ahead = random.chance(500);
            header.is_open = random.chance(300);
            header.id = random.chance(500) ? static_cast<uint64_t>(i) : random.next() >> random.below(64);
            header.offset = random.chance(700) ? 0 : random.next() >> random.below(64);
            header.bytes = static_cast<uint32_t>(random.next() >> random.between(44, 63));
            say(data, header, random.below(2000));
        }
        turn(5);
    }
    turn(200);
    expect_nothing_written();
    expect_service();
}

}  // namespace
}  // namespace longshore::test
