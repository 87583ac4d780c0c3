#include "service/packet_queue.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>

namespace longshore {
namespace {

struct Pair {
    Fd ours, theirs;
    Pair() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        ours = Fd(ends[0]);
        theirs = Fd(ends[1]);
    }
};

std::vector<std::byte> packet_of(uint32_t number) {
    std::vector<std::byte> packet(1400);
    memcpy(packet.data(), &number, sizeof number);
    return packet;
}

// The addresses of 1,000 nodes were sent before a service process that had been started again read any; what
// did not fit the socket was lost, and it waited for ever.
TEST(PacketQueue, WhatTheSocketDoesNotTakeComesLaterAndInOrder) {
    Pair pair;
    PacketQueue queue;
    constexpr uint32_t kCount = 1000;
    for (uint32_t i = 0; i < kCount; ++i) {
        queue.push(packet_of(i));
        queue.flush(pair.ours);
    }
    EXPECT_FALSE(queue.empty());
    std::byte buffer[2048];
    uint32_t next = 0;
    for (int quiet = 0; next < kCount && quiet < 2;) {
        size_t bytes = 0;
        if (receive_packet(pair.theirs, buffer, sizeof buffer, &bytes, nullptr) == Io::kAgain) {
            ++quiet;
            queue.flush(pair.ours);
            continue;
        }
        quiet = 0;
        uint32_t number = 0;
        memcpy(&number, buffer, sizeof number);
        ASSERT_EQ(number, next++);
        ASSERT_EQ(bytes, 1400u);
    }
    EXPECT_EQ(next, kCount);
    EXPECT_TRUE(queue.empty());
}

TEST(PacketQueue, WithoutAReaderNothingStays) {
    Pair pair;
    PacketQueue queue;
    pair.theirs.reset();
    queue.push(packet_of(1));
    queue.flush(pair.ours);
    EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace longshore
