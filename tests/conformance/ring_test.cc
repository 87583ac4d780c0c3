// The ring between two threads (run it under TSan too), and with a peer that writes nonsense.
#include "base/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/prng.h"

namespace longshore {
namespace {

constexpr size_t kCapacity = 4096;
struct alignas(64) Memory {
    std::byte bytes[ring_total_bytes(kCapacity)] = {};
    RingPositions& positions() { return *reinterpret_cast<RingPositions*>(bytes); }
    std::byte* data() { return bytes + kRingHeaderBytes; }
};

TEST(Ring, MessagesArriveOnceAndInOrder) {
    static Memory memory;
    constexpr uint32_t kMessages = 200'000;
    std::thread producer([&] {
        RingWriter writer(memory.bytes, kCapacity);
        Prng prng(1);
        std::byte message[512];
        for (uint32_t i = 0; i < kMessages; ++i) {
            const size_t bytes = 4 + prng.below(500);
            memset(message, static_cast<int>(i & 0xff), sizeof message);
            memcpy(message, &i, sizeof i);
            while (writer.push({message, bytes}) == RingResult::kFull) std::this_thread::yield();
        }
    });
    RingReader reader(memory.bytes, kCapacity);
    Prng prng(1);
    std::byte buffer[512];
    uint32_t bad = 0;
    for (uint32_t i = 0; i < kMessages; ++i) {
        size_t bytes = 0;
        RingResult result;
        while ((result = reader.pop(buffer, &bytes)) == RingResult::kEmpty) std::this_thread::yield();
        uint32_t number = 0;
        memcpy(&number, buffer, sizeof number);
        bad += result != RingResult::kOk || number != i || bytes != 4 + prng.below(500) ||
               (bytes > 4 && buffer[bytes - 1] != static_cast<std::byte>(i & 0xff));
    }
    producer.join();
    EXPECT_EQ(bad, 0u);
    EXPECT_TRUE(reader.empty());
}

TEST(Ring, FullChangesNothing) {
    Memory memory;
    RingWriter writer(memory.bytes, kCapacity);
    RingReader reader(memory.bytes, kCapacity);
    std::byte message[100] = {}, buffer[100];
    size_t count = 0, bytes = 0;
    while (writer.push(message) == RingResult::kOk) ++count;
    EXPECT_EQ(count, kCapacity / ring_slot_bytes(sizeof message));
    EXPECT_EQ(writer.push(message), RingResult::kFull);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(reader.pop(buffer, &bytes), RingResult::kOk);
    EXPECT_EQ(reader.pop(buffer, &bytes), RingResult::kEmpty);
    EXPECT_EQ(writer.push({}), RingResult::kOk);
    EXPECT_EQ(reader.pop(buffer, &bytes), RingResult::kOk);
    EXPECT_EQ(bytes, 0u);
}

TEST(Ring, HostileContentsAreRefused) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        Memory memory;
        Prng prng(seed);
        for (size_t i = 0; i < kCapacity; ++i) memory.data()[i] = static_cast<std::byte>(prng.next());
        const uint64_t written = prng.chance(500) ? prng.next() : prng.below(2 * kCapacity);
        memory.positions().written.store(written);
        RingReader reader(memory.bytes, kCapacity);
        std::byte buffer[64];
        size_t bytes = 0;
        RingResult result;
        int steps = 0;
        while ((result = reader.pop(buffer, &bytes)) == RingResult::kOk) {
            EXPECT_LE(bytes, sizeof buffer);
            ASSERT_LT(++steps, 1000);
        }
        if (result == RingResult::kCorrupt) {
            EXPECT_EQ(reader.pop(buffer, &bytes), RingResult::kCorrupt);
        }
    }
}

TEST(Ring, HostileReaderIsRefused) {
    Memory memory;
    RingWriter writer(memory.bytes, kCapacity);
    std::byte message[1000] = {};
    while (writer.push(message) == RingResult::kOk) {
    }
    memory.positions().read.store(uint64_t{1} << 40);
    EXPECT_EQ(writer.push(message), RingResult::kCorrupt);
}

}  // namespace
}  // namespace longshore
