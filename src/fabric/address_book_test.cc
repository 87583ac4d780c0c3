// What a node's first rank tells its supervisor of the job, and what becomes of it when it makes no sense.
#include "fabric/address_book.h"

#include <gtest/gtest.h>
#include <string.h>

#include "fabric/shm/control.h"

namespace longshore {
namespace {

constexpr JobShape kShape{3, 2, true, false};

NodeEntry good_node() {
    NodeEntry node;
    node.address.name = unpack_name({1, 2, 3});
    node.address.services = kShape.services;
    strcpy(node.address.host, "here");
    node.services = {{std::byte{5}}, {std::byte{5}}};
    return node;
}

std::vector<std::byte> piece_of(uint32_t first, const std::vector<NodeEntry>& nodes) {
    AddressBookPiece piece;
    piece.total = kShape.nodes;
    piece.first = first;
    piece.count = static_cast<uint32_t>(nodes.size());
    std::vector<std::byte> packet(sizeof piece);
    memcpy(packet.data(), &piece, sizeof piece);
    for (const NodeEntry& node : nodes) append_address(encode_entry(node), &packet);
    return packet;
}

TEST(AddressBook, IsWholeWithItsLastPiece) {
    AddressBook book(kShape);
    EXPECT_FALSE(book.is_whole());
    EXPECT_TRUE(book.take(piece_of(0, {good_node(), good_node()})));
    EXPECT_FALSE(book.take(piece_of(1, {good_node()}))) << "it has that one";
    EXPECT_FALSE(book.is_whole());
    EXPECT_TRUE(book.take(piece_of(2, {good_node()})));
    EXPECT_TRUE(book.is_whole());
    EXPECT_EQ(book.packets().size(), 1u);
    EXPECT_EQ(book.services()[2], good_node().services);
}

// Each would have had the whole book sent to every service process again.
TEST(AddressBook, APieceOfNothingIsRefused) {
    AddressBook book(kShape);
    EXPECT_FALSE(book.take(piece_of(0, {})));
    EXPECT_TRUE(book.take(piece_of(0, {good_node(), good_node(), good_node()})));
    EXPECT_FALSE(book.take(piece_of(kShape.nodes, {})));
}

// Service processes end themselves where a node has more service processes than there can be, or none.
TEST(AddressBook, NodesThatMakeNoSenseAreRefused) {
    AddressBook book(kShape);
    for (const uint16_t services : {0, 1, 3, 65535}) {
        NodeEntry node = good_node();
        node.address.services = services;
        EXPECT_FALSE(book.take(piece_of(0, {good_node(), node})));
    }
    NodeEntry node = good_node();
    node.services.pop_back();
    EXPECT_FALSE(book.take(piece_of(0, {node}))) << "a service process without an address";
    node = good_node();
    node.agent.push_back(std::byte{1});
    EXPECT_FALSE(book.take(piece_of(0, {node}))) << "an agent where there are none";
    EXPECT_TRUE(book.take(piece_of(0, {good_node()}))) << "nothing of these is kept";
}

TEST(AddressBook, ALargeOneGoesInPacketsThatFit) {
    const JobShape shape{200, 4, true, true};
    AddressBook book(shape), heard(shape);
    for (uint32_t i = 0; i < shape.nodes; ++i) {
        NodeEntry node;
        node.address.name = unpack_name({static_cast<uint8_t>(i)});
        node.address.services = shape.services;
        for (size_t s = 0; s < shape.services; ++s) node.services.emplace_back(300 * (s + 1), std::byte(i));
        node.agent.assign(1000, std::byte(i));
        ASSERT_TRUE(book.add(encode_entry(node)));
    }
    book.aliases = true;
    EXPECT_GT(book.packets().size(), 1u);
    for (const auto& packet : book.packets()) {
        EXPECT_LE(packet.size(), kControlBytesMax);
        EXPECT_TRUE(heard.take(packet));
    }
    EXPECT_TRUE(heard.is_whole());
    EXPECT_TRUE(heard.aliases);
    EXPECT_EQ(heard.services(), book.services());
    EXPECT_EQ(heard.agents(), book.agents());
}

TEST(AddressBook, WhatIsTooLongIsNoEntry) {
    NodeEntry node = good_node();
    node.services.clear();
    for (size_t s = 0; s < 11; ++s) node.services.emplace_back(4000 - s, std::byte{1});
    EXPECT_TRUE(encode_entry(node).empty());
    node.services = {std::vector<std::byte>(4001)};
    EXPECT_TRUE(encode_entry(node).empty());
}

}  // namespace
}  // namespace longshore
