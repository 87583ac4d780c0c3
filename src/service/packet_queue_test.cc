#include "fabric/shm/packet_queue.h"

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
        ASSERT_TRUE(queue.send(pair.ours, packet_of(i)));
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
    EXPECT_FALSE(queue.send(pair.ours, packet_of(1)));
    EXPECT_TRUE(queue.empty());
}

// Who says something of a rank may have closed its files by the time that it is heard.
TEST(PacketQueue, DescriptorsAreKeptForWhatWaits) {
    Pair pair;
    PacketQueue queue;
    while (queue.empty()) ASSERT_TRUE(queue.send(pair.ours, packet_of(0)));
    {
        const Fd file = make_memory_file("test-file", 12'345);
        const int give = file.get();
        ASSERT_TRUE(queue.send(pair.ours, packet_of(1), {&give, 1}));
    }
    std::byte buffer[2048];
    size_t bytes = 0;
    std::vector<Fd> descriptors;
    while (descriptors.empty()) {
        ASSERT_EQ(receive_packet(pair.theirs, buffer, sizeof buffer, &bytes, &descriptors), Io::kOk);
        queue.flush(pair.ours);
    }
    uint64_t file_bytes = 0;
    EXPECT_TRUE(is_memory_file(descriptors[0].get(), 12'345, &file_bytes));
    EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace longshore
