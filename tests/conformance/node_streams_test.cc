// Streams of tasks between nodes: who proves to be of the job is let in, and nobody else.
#include "fabric/tcp/node_streams.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "fabric/tcp/addresses.h"
#include "fabric/tcp/node_port.h"
#include "fabric/tcp/proof.h"
#include "fabric/tcp/wire.h"

namespace longshore {
namespace {

constexpr uint64_t kLimitNs = 60'000'000'000;  // on a machine that is busy with other things
constexpr NodeId kHere{0}, kThere{1};

NodeAddress node(uint8_t token) {
    NodeAddress address;
    Token ignored;
    EXPECT_TRUE(make_secret(&address.name, &ignored));
    address.token.fill(token);
    address.services = 1;
    return address;
}

// Two nodes of a job; this process is the supervisors of both. Node 0 has the door.
class NodeStreamsTest : public testing::Test {
  protected:
    NodeStreamsTest() : nodes_{node(1), node(2)} {
        std::string error;
        port_ = NodePort::open(0, 0, 2, &error);
        EXPECT_NE(port_, nullptr) << error;
        PortShare share = port_->share(ServiceId{1});
        number_ = share.port;
        addresses_ = encode_addresses(own_addresses("", &error), share.port);
        door_ = node_streams().open_door(kHere, nodes_, std::move(share.streams), kLimitNs, &error);
        EXPECT_NE(door_, nullptr) << error;
    }
    void turn() {
        pollfd ready[] = {{port_->fd(), POLLIN, 0}, {door_->fd(), POLLIN, 0}};
        poll(ready, 2, 5);
        port_->turn();
        door_->turn();
    }
    // What a carrier of node 1 gets that takes `to` for node 0's.
    Fd connect(const NodeAddress& to, uint64_t limit_ns, std::string* error) {
        Fd stream;
        std::atomic<bool> is_over = false;
        std::thread carrier([&] {
            stream = node_streams().connect({kThere, nodes_[1]}, {kHere, to}, addresses_, limit_ns, error);
            is_over = true;
        });
        while (!is_over) turn();
        carrier.join();
        return stream;
    }
    // A socket of somebody who knows the protocol's first words.
    Fd stranger(ServiceId service) const {
        Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(number_);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
        std::array<std::byte, kPrefaceBytes> preface;
        encode_preface(service, preface);
        send(socket.get(), preface.data(), preface.size(), MSG_NOSIGNAL);
        return socket;
    }
    // Until the other end has closed it; what it had said before.
    size_t hear_to_the_end(const Fd& socket) {
        const uint64_t end = now_ns() + kLimitNs;
        std::byte bytes[256];
        size_t heard = 0;
        while (now_ns() < end) {
            turn();
            const ssize_t got = recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN)) return heard;
            if (got > 0) heard += static_cast<size_t>(got);
        }
        ADD_FAILURE() << "it is still open";
        return heard;
    }
    NodeId from_;

    std::vector<NodeAddress> nodes_;
    std::unique_ptr<NodePort> port_;
    uint16_t number_ = 0;
    std::vector<std::byte> addresses_;
    std::unique_ptr<StreamDoor> door_;
};

TEST_F(NodeStreamsTest, AreOfTheNodeThatProvesWhoItIs) {
    std::string error;
    const Fd carrier = connect(nodes_[0], kLimitNs, &error);
    ASSERT_TRUE(carrier) << error;
    Fd stream;
    while (!(stream = door_->take(&from_))) turn();
    EXPECT_EQ(from_, kThere);
    EXPECT_FALSE(door_->take(&from_));
    ASSERT_EQ(send(carrier.get(), "task", 4, MSG_NOSIGNAL), 4);
    char heard[4];
    pollfd ready{stream.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 60'000), 1);
    EXPECT_EQ(recv(stream.get(), heard, sizeof heard, MSG_WAITALL), 4);
}

TEST_F(NodeStreamsTest, WithAnotherTokenNobodyComesIn) {
    NodeAddress wrong = nodes_[0];
    wrong.token.fill(9);
    std::string error;
    EXPECT_FALSE(connect(wrong, 300'000'000, &error));
    EXPECT_NE(error, "");
    EXPECT_FALSE(door_->take(&from_));
}

TEST_F(NodeStreamsTest, NoiseAndStreamsOfAnotherKindAreClosed) {
    const Fd noise = stranger(ServiceId{1});
    const std::string words(kHelloBytes, 'x');
    send(noise.get(), words.data(), words.size(), MSG_NOSIGNAL);
    EXPECT_EQ(hear_to_the_end(noise), 0u);
    // Of the job's own service processes, but not for tasks: it is not admitted whatever it proves.
    const Fd other = stranger(ServiceId{1});
    Hello hello;
    hello.kind = StreamKind::kTalk;
    hello.from = {kThere, ServiceId{1}};
    hello.to = {kHere, ServiceId{1}};
    hello.incarnation = 1;
    hello.connection = 77;
    std::array<std::byte, kHelloBytes> said;
    encode_hello(hello, said);
    send(other.get(), said.data(), said.size(), MSG_NOSIGNAL);
    std::array<std::byte, kChallengeBytes> challenge;
    size_t have = 0;
    for (const uint64_t end = now_ns() + kLimitNs; have < challenge.size() && now_ns() < end;) {
        turn();
        const ssize_t got = recv(other.get(), challenge.data() + have, challenge.size() - have, MSG_DONTWAIT);
        if (got == 0) break;
        if (got > 0) have += static_cast<size_t>(got);
    }
    if (have == challenge.size()) {
        const auto proof = prove(nodes_[0].token, ProofRole::kConnects, nodes_[0].name, said, challenge);
        send(other.get(), proof.data(), proof.size(), MSG_NOSIGNAL);
    }
    hear_to_the_end(other);
    EXPECT_FALSE(door_->take(&from_));
    // And who keeps to it is let in as before.
    std::string error;
    EXPECT_TRUE(connect(nodes_[0], kLimitNs, &error)) << error;
}

TEST_F(NodeStreamsTest, APlaceThatCannotBeReadIsNoPort) {
    std::string error;
    const std::vector<std::byte> cut{std::byte{1}, std::byte{2}};
    EXPECT_FALSE(node_streams().connect({kThere, nodes_[1]}, {kHere, nodes_[0]}, cut, kLimitNs, &error));
    EXPECT_EQ(error, "it has no port for tasks");
}

}  // namespace
}  // namespace longshore
