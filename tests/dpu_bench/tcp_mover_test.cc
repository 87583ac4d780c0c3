// The mover by TCP: several of them in this process, each with a region of its own.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dpu_bench/mover.h"
#include "dpu_bench/tcp_server.h"
#include "failure.h"

namespace longshore::dpu_bench {
namespace {

class TcpMover : public ::testing::Test {
  protected:
    static constexpr int kRanks = 3;

    void open(std::size_t bytes) {
        std::vector<std::uint8_t> contacts;
        for (int i = 0; i < kRanks; ++i) {
            movers_.push_back(make_tcp_mover("lo"));
            const std::vector<std::uint8_t> contact = movers_.back()->open(i, kRanks);
            contacts.insert(contacts.end(), contact.begin(), contact.end());
            regions_.emplace_back(bytes, char('a' + i));
        }
        for (int i = 0; i < kRanks; ++i) {
            movers_[i]->join(contacts);
            movers_[i]->expose(regions_[i].data(), bytes);
        }
    }

    std::vector<std::unique_ptr<Mover>> movers_;
    std::vector<std::string> regions_;
};

TEST_F(TcpMover, ReadsAndWritesAtOffsetsOfThePeersRegion) {
    open(8);
    movers_[0]->read(1, 2, 4, 2);
    movers_[0]->write(2, 0, 0, 3);
    movers_[0]->read(0, 0, 6, 1);  // from itself
    movers_[0]->write(2, 7, 0, 0);
    movers_[0]->wait_all();
    EXPECT_EQ(regions_[0], "aaaabbaa");
    EXPECT_EQ(regions_[2], "aaaccccc");
    // A region takes the place of the one before.
    std::string later = "xyz";
    movers_[1]->expose(later.data(), later.size());
    movers_[0]->read(1, 1, 0, 2);
    movers_[0]->wait_all();
    EXPECT_EQ(regions_[0], "yzaabbaa");
}

// More than sockets hold, both ways, to both others at once.
TEST_F(TcpMover, ManyLongTransfersAreUnderWayTogether) {
    constexpr std::size_t kBlock = 3 << 20, kBlocks = 6;
    open(kBlocks * kBlock);
    for (std::size_t i = 0; i < kBlocks; ++i) {
        const int peer = 1 + int(i % 2);
        if (i < 2)
            movers_[0]->write(peer, i * kBlock, i * kBlock, kBlock);
        else
            movers_[0]->read(peer, i * kBlock, i * kBlock, kBlock);
    }
    movers_[0]->wait_all();
    for (std::size_t i = 2; i < kBlocks; ++i)
        EXPECT_EQ(regions_[0].substr(i * kBlock, kBlock), std::string(kBlock, i % 2 == 0 ? 'b' : 'c')) << i;
    EXPECT_EQ(regions_[1].substr(0, kBlock), std::string(kBlock, 'a'));
    EXPECT_EQ(regions_[2].substr(kBlock, kBlock), std::string(kBlock, 'a'));
    EXPECT_EQ(regions_[2].substr(0, kBlock), std::string(kBlock, 'c'));
}

TEST_F(TcpMover, AFailureIsToldOnceByTheWaitAndAllGoesOnAfterwards) {
    open(8);
    movers_[0]->read(1, 4, 0, 5);
    EXPECT_NE(failure(*movers_[0]).find("leaves the region of rank 1"), std::string::npos);
    EXPECT_EQ(failure(*movers_[0]), "");
    movers_[0]->write(1, ~std::size_t{0}, 0, 2);
    EXPECT_NE(failure(*movers_[0]).find("rank 1 has gone, or refuses the transfer"), std::string::npos);
    movers_[0]->write(1, 0, 4, 5);
    EXPECT_NE(failure(*movers_[0]).find("leaves this process's region"), std::string::npos);
    EXPECT_EQ(regions_[0], "aaaaaaaa");
    EXPECT_EQ(regions_[1], "bbbbbbbb");
    movers_[0]->read(1, 0, 0, 8);
    movers_[0]->wait_all();
    EXPECT_EQ(regions_[0], "bbbbbbbb");
    movers_[2].reset();
    movers_[0]->read(2, 0, 0, 4);
    EXPECT_NE(failure(*movers_[0]).find("rank 2 cannot be reached"), std::string::npos);
}

TEST(TcpServer, ServesNobodyWithoutTheToken) {
    const tcp::Token token = {1, 2, 3};
    tcp::Server server(INADDR_LOOPBACK, token);
    char region[4] = "abc";
    server.expose(region, sizeof region);
    const auto ask = [&](const tcp::Token& with) {
        const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in there{};
        there.sin_family = AF_INET;
        there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        there.sin_port = htons(server.port());
        EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
        struct {
            tcp::Token token;
            tcp::Request request;
        } all = {with, {tcp::Kind::kRead, 0, 0, 4}};
        EXPECT_EQ(send(socket, &all, sizeof all, MSG_NOSIGNAL), ssize_t(sizeof all));
        std::string got(64, 0);
        const ssize_t count = recv(socket, got.data(), sizeof(tcp::Reply) + 4, MSG_WAITALL);
        close(socket);
        return count < 0 ? "" : got.substr(0, std::size_t(count));
    };
    EXPECT_EQ(ask(token).substr(sizeof(tcp::Reply)), std::string("abc", 4));
    EXPECT_EQ(ask({1, 2, 4}), "");
}

TEST(TcpMoverAlone, AnInterfaceThatIsNotThereIsSaid) {
    EXPECT_THROW(make_tcp_mover("no-such-0")->open(0, 1), std::runtime_error);
}

}  // namespace
}  // namespace longshore::dpu_bench
