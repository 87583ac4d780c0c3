// What reaches a service process from somebody who is not of its job, or does not keep to the protocol:
// refused and counted, and those who do keep to it are served as before.
#include <string.h>

#include <chrono>

#include "base/prng.h"
#include "ucx_world.h"

namespace longshore::test {
namespace {

constexpr ServiceAddress kA{NodeId{0}, ServiceId{0}}, kB{NodeId{1}, ServiceId{0}},
    kOther{NodeId{1}, ServiceId{1}};
constexpr LocalRank kRank0{0}, kRank1{1};

class Hostile : public testing::Test {
  protected:
    Hostile() : world_(false, false) {
        std::string error;
        stranger_ = UcxWorker::create(&error);
        EXPECT_TRUE(stranger_) << error;
        std::vector<std::vector<std::byte>> addresses;
        EXPECT_TRUE(split_addresses(world_.book()[0][0], 1, &addresses));
        if (stranger_) endpoint_ = stranger_->connect(addresses[0]);
        append_address(stranger_->address(), &address_);
        EXPECT_NE(endpoint_, nullptr);
    }
    // Whatever the stranger sends is looked at.
    void turn(int times = 20) {
        FabricEvent events[8];
        for (int i = 0; i < times; ++i) {
            stranger_->progress();
            for (const ServiceAddress at : {kA, kB}) {
                const size_t count = world_.fabric(at).poll(events, 0);
                for (size_t e = 0; e < count; ++e) messages_ += events[e].kind == FabricEvent::Kind::kMessage;
            }
        }
    }
    bool turn_until_refused(uint64_t more_than) { return turn_until(&FabricCounters::refused, more_than); }
    bool turn_until(uint64_t FabricCounters::*counter, uint64_t more_than) {
        const auto end = std::chrono::steady_clock::now() + in_time();
        while (world_.fabric(kA).counters().*counter <= more_than && std::chrono::steady_clock::now() < end)
            turn(1);
        return world_.fabric(kA).counters().*counter > more_than;
    }
    Packet from_other(PacketKind kind) const {
        Packet packet;
        packet.kind = kind;
        packet.from = kOther;
        packet.to = kA;
        packet.incarnation = 1;
        packet.token = world_.nodes()[0].token;
        return packet;
    }
    void send(const Packet& packet, std::span<const std::byte> payload = {}) {
        std::byte header[kPacketHeaderBytesMax];
        ASSERT_TRUE(stranger_->send(endpoint_, encode_packet(packet, header), payload));
    }
    // A piece of what A is asked to have read, lent until A has answered.
    void offer(uint64_t id, uint64_t bytes, bool with_token = true) {
        Packet packet = from_other(PacketKind::kReadData);
        packet.id = id;
        if (!with_token) packet.token[3] = static_cast<uint8_t>(packet.token[3] + 1);
        std::byte header[kPacketHeaderBytesMax];
        ASSERT_TRUE(
            stranger_->offer(endpoint_, encode_packet(packet, header), std::span(piece_).first(bytes), 1));
    }
    RegionName from_b() { return world_.name(kB.node, kRank1); }
    // A reads of B as if nothing had happened.
    void expect_service() {
        Fabric& a = world_.fabric(kA);
        memset(world_.bytes(kB.node, kRank1), 0x3d, 300000);
        memset(world_.bytes(kA.node, kRank0), 0, 300000);
        FabricEvent event;
        ASSERT_EQ(a.read(kB, from_b(), 0, {kRank0, FabricWorld::kUserRegion, 0}, 300000, 2), Post::kAccepted);
        const auto end = std::chrono::steady_clock::now() + in_time();
        bool moved = false;
        while (!moved && std::chrono::steady_clock::now() < end) {
            FabricEvent of_b;
            world_.fabric(kB).poll({&of_b, 1}, 0);
            moved = a.poll({&event, 1}, 0) == 1 && event.kind == FabricEvent::Kind::kMoved &&
                    event.result == MoveResult::kMoved;
        }
        EXPECT_TRUE(moved);
        EXPECT_EQ(memcmp(world_.bytes(kA.node, kRank0), world_.bytes(kB.node, kRank1), 300000), 0);
    }
    UcxWorld world_;
    std::unique_ptr<UcxWorker> stranger_;
    UcxEndpoint* endpoint_ = nullptr;
    std::vector<std::byte> piece_ = std::vector<std::byte>(1u << 20, std::byte{0x77});
    std::vector<std::byte> address_;  // as a service process would give it
    uint64_t messages_ = 0;
};

TEST_F(Hostile, NoiseIsRefused) {
    const std::vector<std::byte> noise(100, std::byte{0x53});
    ASSERT_TRUE(stranger_->send(endpoint_, noise, noise));
    EXPECT_TRUE(turn_until_refused(0));
    EXPECT_NE(world_.fabric(kA).take_problem(), "");
    expect_service();
}

TEST_F(Hostile, AWrongTokenIsRefused) {
    Packet packet = from_other(PacketKind::kGreeting);
    packet.token[3] = static_cast<uint8_t>(packet.token[3] + 1);
    send(packet, address_);
    EXPECT_TRUE(turn_until_refused(0));
    expect_service();
}

TEST_F(Hostile, AnotherVersionIsRefused) {
    std::byte header[kPacketHeaderBytesMax];
    const auto bytes = encode_packet(from_other(PacketKind::kGreeting), header);
    header[2] = std::byte{kPacketVersion + 1};
    ASSERT_TRUE(stranger_->send(endpoint_, bytes, address_));
    EXPECT_TRUE(turn_until_refused(0));
    expect_service();
}

TEST_F(Hostile, WhoHasNotGreetedIsNotServed) {
    Packet packet = from_other(PacketKind::kFrame);
    send(packet, std::as_bytes(std::span("frame")));
    EXPECT_TRUE(turn_until(&FabricCounters::dropped, 0));
    EXPECT_EQ(messages_, 0u);
    expect_service();
}

// Who has the token, but does not keep to the protocol, loses its connection.
TEST_F(Hostile, AReadBeyondARegionMovesNothing) {
    send(from_other(PacketKind::kGreeting), address_);
    Packet packet = from_other(PacketKind::kReadRequest);
    packet.region = world_.name(NodeId{0}, kRank0);
    packet.offset = FabricWorld::kRegionBytes - 3;
    packet.bytes = 4;
    send(packet);
    EXPECT_TRUE(turn_until_refused(0));
    const uint64_t refused = world_.fabric(kA).counters().refused;
    packet.region.generation += 2;
    packet.offset = 0;
    send(packet);
    EXPECT_TRUE(turn_until_refused(refused)) << refused << world_.fabric(kA).take_problem();
    expect_service();
}

TEST_F(Hostile, AnOfferWithoutTheTokenIsNotTaken) {
    offer(0, 100000, false);
    EXPECT_TRUE(turn_until_refused(0));
    expect_service();
}

TEST_F(Hostile, AnOfferThatNobodyAskedForIsDeclined) {
    offer(12345, 100000);
    EXPECT_TRUE(turn_until(&FabricCounters::dropped, 0));
    const auto end = std::chrono::steady_clock::now() + in_time();
    while (stranger_->sending() != 0 && std::chrono::steady_clock::now() < end) turn(1);
    EXPECT_EQ(stranger_->sending(), 0u);
    expect_service();
}

TEST_F(Hostile, AnOfferOfMoreThanWasAskedForIsNotTaken) {
    Fabric& a = world_.fabric(kA);
    FabricEvent event;
    memset(world_.bytes(kA.node, kRank0), 0, FabricWorld::kRegionBytes);
    ASSERT_EQ(a.read(kOther, from_b(), 0, {kRank0, FabricWorld::kUserRegion, 0}, 100000, 2), Post::kAccepted);
    const uint64_t first_read = uint64_t{1} << 32;
    offer(first_read, 200000);
    EXPECT_TRUE(turn_until_refused(0));
    for (uint64_t i = 0; i < FabricWorld::kRegionBytes; ++i)
        ASSERT_EQ(world_.bytes(kA.node, kRank0)[i], std::byte{0}) << i;
    expect_service();
}

TEST_F(Hostile, MessagesOutOfOrderEndTheConnection) {
    send(from_other(PacketKind::kGreeting), address_);
    Packet packet = from_other(PacketKind::kFrame);
    packet.sequence = 5;
    send(packet, std::as_bytes(std::span("frame")));
    EXPECT_TRUE(turn_until_refused(0));
    EXPECT_EQ(messages_, 0u);
    expect_service();
}

TEST_F(Hostile, MoreMessagesThanTheWindowEndTheConnection) {
    send(from_other(PacketKind::kGreeting), address_);
    Packet packet = from_other(PacketKind::kFrame);
    for (packet.sequence = 0; packet.sequence < 3 * UcxFabric::kWindow; ++packet.sequence)
        send(packet, std::as_bytes(std::span("frame")));
    // Its user does not look: what has come waits, up to the window.
    for (int i = 0; i < 2000 && stranger_->sending() != 0; ++i) stranger_->progress();
    EXPECT_TRUE(turn_until_refused(0));
    EXPECT_LE(messages_, 2 * UcxFabric::kWindow);
    expect_service();
}

// With the right token and a greeting, anything in the other fields.
TEST_F(Hostile, RandomFieldsDoNoHarm) {
    Prng random(7);
    std::vector<std::byte> payload(6000);
    for (auto& byte : payload) byte = static_cast<std::byte>(random.next());
    for (uint32_t life = 1; life <= 200; ++life) {
        Packet packet = from_other(PacketKind::kGreeting);
        packet.incarnation = life;
        send(packet, address_);
        for (int i = 0; i < 20; ++i) {
            packet = from_other(static_cast<PacketKind>(1 + random.below(7)));
            packet.incarnation = life;
            packet.taken = static_cast<uint32_t>(random.below(3));
            packet.sequence = static_cast<uint32_t>(random.below(3));
            packet.asks = random.chance(500);
            packet.is_open = random.chance(500);
            packet.id = random.next() >> random.below(64);
            packet.result = static_cast<MoveResult>(random.chance(800) ? 0 : random.below(3));
            packet.region = {LocalRank{static_cast<uint16_t>(random.below(4))},
                             RegionId{static_cast<uint32_t>(random.below(4))},
                             static_cast<uint32_t>(random.below(3))};
            packet.offset = random.next() >> random.below(64);
            packet.bytes = random.next() >> random.below(64);
            send(packet, std::span(payload).first(random.below(payload.size())));
        }
        turn(5);
    }
    turn(200);
    expect_service();
}

}  // namespace
}  // namespace longshore::test
