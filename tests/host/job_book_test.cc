// What a node's first rank tells its supervisor of the job, and what becomes of it when it makes no sense.
#include "service/job_book.h"

#include <gtest/gtest.h>
#include <string.h>

namespace longshore {
namespace {

constexpr uint16_t kNodes = 3, kServices = 2;

ServiceParameters parameters() {
    ServiceParameters p;
    p.node_count = kNodes;
    p.service_count = kServices;
    return p;
}

NodeAddress good_node() {
    NodeAddress node;
    strcpy(node.name.text, "longshore-1");
    node.services = kServices;
    return node;
}

std::vector<std::byte> piece_of(uint32_t first, const std::vector<NodeAddress>& nodes) {
    AddressBookPiece piece;
    piece.total = kNodes;
    piece.first = first;
    piece.count = static_cast<uint32_t>(nodes.size());
    std::vector<std::byte> packet(sizeof piece + nodes.size() * sizeof(NodeAddress));
    memcpy(packet.data(), &piece, sizeof piece);
    if (!nodes.empty())
        memcpy(packet.data() + sizeof piece, static_cast<const void*>(nodes.data()),
               nodes.size() * sizeof(NodeAddress));
    return packet;
}

TEST(JobBook, IsWholeWithItsLastPiece) {
    JobBook book(parameters());
    EXPECT_FALSE(book.is_whole());
    EXPECT_TRUE(book.take_nodes(piece_of(0, {good_node(), good_node()})));
    EXPECT_FALSE(book.take_nodes(piece_of(1, {good_node()}))) << "it has that one";
    EXPECT_FALSE(book.is_whole());
    EXPECT_TRUE(book.take_nodes(piece_of(2, {good_node()})));
    EXPECT_TRUE(book.is_whole());
    EXPECT_EQ(book.packets().size(), 1u);
}

// Each would have had the whole book sent to every service process again.
TEST(JobBook, APieceOfNothingIsRefused) {
    JobBook book(parameters());
    EXPECT_FALSE(book.take_nodes(piece_of(0, {})));
    EXPECT_TRUE(book.take_nodes(piece_of(0, {good_node(), good_node(), good_node()})));
    EXPECT_FALSE(book.take_nodes(piece_of(kNodes, {})));
}

// Service processes end themselves where a node has more service processes than there can be, or none.
TEST(JobBook, NodesThatMakeNoSenseAreRefused) {
    JobBook book(parameters());
    for (const uint16_t services : {0, 1, 3, 65535}) {
        NodeAddress node = good_node();
        node.services = services;
        EXPECT_FALSE(book.take_nodes(piece_of(0, {good_node(), node})));
    }
    NodeAddress endless = good_node();
    memset(endless.name.text, 'x', sizeof endless.name.text);
    EXPECT_FALSE(book.take_nodes(piece_of(0, {endless})));
    endless = good_node();
    memset(endless.host, 'x', sizeof endless.host);
    EXPECT_FALSE(book.take_nodes(piece_of(0, {endless})));
    EXPECT_TRUE(book.take_nodes(piece_of(0, {good_node()}))) << "nothing of these is kept";
}

}  // namespace
}  // namespace longshore
