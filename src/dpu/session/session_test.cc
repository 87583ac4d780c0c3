// What crosses the connection comes back as it was, and nothing else is taken for it.
#include "dpu/session/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <numeric>

#include "dpu/session/stream.h"

namespace longshore {
namespace {

std::vector<std::byte> some_bytes(size_t count) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 1);
    return bytes;
}

SessionHello a_hello() {
    SessionHello m;
    m.job = 0x0123456789abcdef;
    std::iota(m.token.begin(), m.token.end(), uint8_t{1});
    m.host = ~uint64_t{0};
    m.rank = 3;
    m.size = 4;
    m.service_count = 2;
    m.limit_s = 5;
    m.eager_bytes = 16384;
    m.chunk_bytes = 262144;
    m.staging_bytes = uint64_t{1} << 40;
    m.cores = "auto";
    m.agent = some_bytes(100);
    m.copies = true;
    return m;
}

SessionPost a_post() {
    SessionPost m;
    m.operation = 7;
    m.group = uint64_t{2} << 40;
    m.collective = 3;
    m.algorithm = 1;
    m.self_in_place = true;
    m.root = 1;
    m.send_bytes = 1000;
    m.recv_bytes = uint64_t{1} << 33;
    m.send_region = 4;
    m.recv_region = 5;
    m.recv_offset = 999;
    m.send_blocks = {{0, 10}, {20, 30}};
    m.recv_blocks = {{uint64_t{1} << 32, 1}};
    m.data = some_bytes(17);
    m.copies = SessionCopies::kInCall;
    return m;
}

// No part of it is taken for the whole, nor is it with something behind.
template <class Message>
Message there_and_back(const Message& message) {
    std::vector<std::byte> body = encode(message);
    Message again;
    for (size_t bytes = 0; bytes < body.size(); ++bytes) {
        Message part;
        EXPECT_FALSE(decode(std::span(body).first(bytes), &part)) << bytes;
    }
    EXPECT_TRUE(decode(body, &again));
    EXPECT_EQ(encode(again), body);
    body.push_back(std::byte{0});
    Message longer;
    EXPECT_FALSE(decode(body, &longer));
    return again;
}

TEST(Session, MessagesComeBackAsTheyWere) {
    const SessionHello hello = there_and_back(a_hello());
    EXPECT_EQ(hello.token[15], 16);
    EXPECT_EQ(hello.staging_bytes, uint64_t{1} << 40);
    EXPECT_EQ(hello.cores, "auto");
    EXPECT_TRUE(hello.copies);
    const SessionPost post = there_and_back(a_post());
    EXPECT_EQ(post.recv_blocks[0].offset, uint64_t{1} << 32);
    EXPECT_EQ(post.data, some_bytes(17));
    EXPECT_EQ(post.copies, SessionCopies::kInCall);
    EXPECT_EQ(there_and_back(SessionWelcome{false, "no"}).reason, "no");
    SessionTasks tasks{77, {}, 9};
    tasks.token.fill(5);
    EXPECT_EQ(there_and_back(tasks).job, 77u);
    EXPECT_EQ(there_and_back(tasks).token, tasks.token);
    EXPECT_EQ(there_and_back(tasks).limit_s, 9u);
    EXPECT_FALSE(there_and_back(SessionExchange{9, false, some_bytes(3)}).ok);
    EXPECT_EQ(there_and_back(SessionReady{1, true, 2, 3, 4, true, true, false, ""}).ranks_per_node, 4u);
    EXPECT_TRUE(there_and_back(SessionReady{1, true, 2, 3, 4, true, false, true, ""}).spare_cores);
    const SessionOpened opened =
        there_and_back(SessionOpened{1, 4096, 8192, 7, some_bytes(20), some_bytes(30)});
    EXPECT_EQ(opened.address, 4096u);
    EXPECT_EQ(opened.heap_unit, 7u);
    EXPECT_EQ(opened.key, some_bytes(20));
    EXPECT_EQ(opened.exported, some_bytes(30));
    EXPECT_EQ(there_and_back(SessionGroup{1, 2, 3}).rank, 2u);
    const SessionDone done = there_and_back(SessionDone{1, -3, 77, 88, 9, 10});
    EXPECT_EQ(done.result, -3);
    EXPECT_EQ(done.bytes_moved, 77u);
    EXPECT_EQ(done.bytes_by_agent, 88u);
    EXPECT_EQ(done.blocks_by_rank, 9u);
    EXPECT_EQ(done.blocks_by_agent, 10u);
    EXPECT_EQ(there_and_back(SessionAttend{7, true}).serial, 7u);
    EXPECT_TRUE(there_and_back(SessionAttend{7, true}).on);
    EXPECT_FALSE(there_and_back(SessionCopied{17, false}).ok);
    const HandedCopy copy = there_and_back(HandedCopy{17, 2, 3, uint64_t{1} << 40, 5, 6});
    EXPECT_EQ(copy.giver, 3u);
    EXPECT_EQ(copy.from, uint64_t{1} << 40);
    EXPECT_EQ(copy.to, 5u);
    EXPECT_EQ(copy.bytes, 6u);
    EXPECT_EQ(there_and_back(SessionLine{2, "a line"}).text, "a line");
}

TEST(Session, FieldsHaveTheirPlacesWhateverTheMachine) {
    const std::vector<std::byte> body = encode(SessionGroup{0x0102030405060708, 5, 6});
    const uint8_t expected[] = {8, 7, 6, 5, 4, 3, 2, 1, 5, 0, 0, 0, 6, 0, 0, 0};
    ASSERT_EQ(body.size(), sizeof expected);
    for (size_t i = 0; i < body.size(); ++i) EXPECT_EQ(static_cast<uint8_t>(body[i]), expected[i]) << i;
}

TEST(Session, AnotherVersionIsNotUnderstood) {
    std::vector<std::byte> body = encode(a_hello());
    SessionHello hello;
    body[4] = static_cast<std::byte>(kSessionVersion + 1);
    EXPECT_FALSE(decode(body, &hello));
}

TEST(Session, WhatMeansNothingIsRefused) {
    SessionHello hello = a_hello();
    hello.rank = hello.size;
    EXPECT_FALSE(decode(encode(hello), &hello));
    SessionOpened opened{1, ~uint64_t{0} - 5, 100, 0, some_bytes(8), {}};
    EXPECT_FALSE(decode(encode(opened), &opened));
    SessionGroup group{0, 0, 1};  // 0 is the job
    EXPECT_FALSE(decode(encode(group), &group));
    // A count without what it counts takes no memory.
    std::vector<std::byte> post = encode(SessionPost{});
    const size_t spans_at = post.size() - 3 * sizeof(uint32_t) - 1;
    for (size_t i = 0; i < sizeof(uint32_t); ++i) post[spans_at + i] = std::byte{0xff};
    SessionPost out;
    EXPECT_FALSE(decode(post, &out));
    post = encode(SessionPost{});
    post.back() = std::byte{3};  // no such time to copy
    EXPECT_FALSE(decode(post, &out));
    HandedCopy copy{1, 0, 0, 0, 0, 1};
    EXPECT_TRUE(decode(encode(copy), &copy));
    for (const HandedCopy& wrong :
         {HandedCopy{0, 0, 0, 0, 0, 1}, HandedCopy{1, 0, 0, 0, 0, 0}, HandedCopy{1, 0, 0, ~uint64_t{0}, 0, 1},
          HandedCopy{1, 0, 0, 0, ~uint64_t{0}, 1}})
        EXPECT_FALSE(decode(encode(wrong), &copy));
}

// Found by fuzzing: they were cut, and what was read was not what had been written.
TEST(Session, TextsThatAreTooLongAreCutByTheirWriterAlone) {
    SessionLine out;
    std::vector<std::byte> line = encode(SessionLine{1, std::string(5000, 'a')});
    ASSERT_TRUE(decode(line, &out));
    EXPECT_EQ(out.text, std::string(4096, 'a'));
    line.push_back(std::byte{'a'});
    const uint32_t size = 4097;
    memcpy(line.data() + 1, &size, sizeof size);
    EXPECT_FALSE(decode(line, &out));
}

class StreamTest : public testing::Test {
  protected:
    StreamTest() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        a_ = SessionStream(Fd(ends[0]), 5);
        b_ = SessionStream(Fd(ends[1]), 5);
    }
    SessionStream a_, b_;
    SessionKind kind_{};
    std::span<const std::byte> body_;
};

TEST_F(StreamTest, LargeFramesArriveInOrderThroughASmallSocket) {
    const std::vector<std::byte> large = some_bytes(3'000'000);
    a_.send(SessionKind::kExchange, SessionExchange{1, true, large});
    EXPECT_FALSE(a_.flushed());
    a_.send(SessionKind::kLine, SessionLine{0, "after it"});
    int frames = 0;
    for (int turns = 0; turns < 10000 && frames < 2; ++turns) {
        a_.flush();
        if (!b_.receive(&kind_, &body_)) continue;
        EXPECT_EQ(kind_, frames == 0 ? SessionKind::kExchange : SessionKind::kLine);
        SessionExchange exchange;
        if (frames == 0) {
            EXPECT_TRUE(decode(body_, &exchange) && exchange.bytes == large);
        }
        ++frames;
    }
    EXPECT_EQ(frames, 2);
    EXPECT_TRUE(a_.flushed());
}

TEST_F(StreamTest, WhatWasSaidBeforeTheEndIsHeard) {
    a_.send(SessionKind::kLine, SessionLine{0, "farewell"});
    a_.close();
    ASSERT_TRUE(b_.receive(&kind_, &body_));
    EXPECT_EQ(kind_, SessionKind::kLine);
    EXPECT_FALSE(b_.receive(&kind_, &body_));
    EXPECT_FALSE(b_.open());
}

TEST_F(StreamTest, AFrameThatIsTooLongEndsTheConnection) {
    a_.send(SessionKind::kHello, std::span<const std::byte>(some_bytes(kHelloBytesMax + 1)));
    EXPECT_FALSE(b_.receive(&kind_, &body_, kHelloBytesMax));
    EXPECT_FALSE(b_.open());
}

TEST(Connecting, AddressesAreHostsWithOrWithoutAPort) {
    const char* reason = "";
    EXPECT_FALSE(start_connecting("127.0.0.1:no", &reason));
    EXPECT_STRNE(reason, "");
    Fd listener(socket(AF_INET6, SOCK_STREAM, 0));
    if (listen(listener.get(), 1) != 0) GTEST_SKIP() << "no IPv6";
    const Fd refused = start_connecting("[::1]:1", &reason);
    for (int i = 0; refused && i < 100 && connect_result(refused) == 0; ++i) usleep(1000);
    EXPECT_TRUE(!refused || connect_result(refused) <= 0);
}

}  // namespace
}  // namespace longshore
