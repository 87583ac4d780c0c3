// A bounded ring of byte messages with one producer and one consumer, in memory that two processes share.
// Neither side trusts the other: positions and lengths are checked before they are used, so a corrupt or
// hostile peer can garble what it says but not make this process read or write elsewhere. Owns nothing; each
// side is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/atomic.h"

namespace longshore {

// Positions count bytes since the start and never wrap in practice (64 bits).
struct RingPositions {
    alignas(64) Atomic<uint64_t> written;
    alignas(64) Atomic<uint64_t> read;
};

constexpr size_t kRingHeaderBytes = sizeof(RingPositions);
// A message takes its length word and its bytes, rounded up.
constexpr size_t ring_slot_bytes(size_t message_bytes) {
    return (message_bytes + 4 + 7) & ~size_t{7};
}
constexpr size_t ring_total_bytes(size_t capacity) {
    return kRingHeaderBytes + capacity;
}

namespace ring_detail {
struct View {
    RingPositions* positions = nullptr;
    std::byte* bytes = nullptr;
    uint64_t capacity = 0;  // a power of two
    void put(uint64_t position, const void* from, size_t count) const {
        if (count == 0) return;  // `from` may be null then
        const uint64_t at = position & (capacity - 1);
        const size_t first = count < capacity - at ? count : capacity - at;
        memcpy(bytes + at, from, first);
        memcpy(bytes, static_cast<const std::byte*>(from) + first, count - first);
    }
    void get(uint64_t position, void* to, size_t count) const {
        if (count == 0) return;
        const uint64_t at = position & (capacity - 1);
        const size_t first = count < capacity - at ? count : capacity - at;
        memcpy(to, bytes + at, first);
        memcpy(static_cast<std::byte*>(to) + first, bytes, count - first);
    }
};
}  // namespace ring_detail

enum class RingResult : uint8_t { kOk, kFull, kEmpty, kCorrupt };

class RingWriter {
  public:
    RingWriter() = default;
    // `memory`: ring_total_bytes(capacity) bytes, 64-aligned, zeroed before either side looks.
    RingWriter(std::byte* memory, uint64_t capacity)
        : view_{reinterpret_cast<RingPositions*>(memory), memory + kRingHeaderBytes, capacity} {}

    // The message is copied. kFull changes nothing; kCorrupt: the consumer's position makes no sense.
    RingResult push(std::span<const std::byte> message) {
        const uint64_t need = ring_slot_bytes(message.size());
        if (need > view_.capacity) return RingResult::kFull;
        if (written_ + need - read_seen_ > view_.capacity) {
            const uint64_t read = view_.positions->read.load(std::memory_order_acquire);
            if (written_ - read > view_.capacity || read < read_seen_) return RingResult::kCorrupt;
            read_seen_ = read;
            if (written_ + need - read_seen_ > view_.capacity) return RingResult::kFull;
        }
        const uint32_t length = static_cast<uint32_t>(message.size());
        view_.put(written_, &length, sizeof length);
        view_.put(written_ + sizeof length, message.data(), message.size());
        written_ += need;
        view_.positions->written.store(written_, std::memory_order_release);
        return RingResult::kOk;
    }

  private:
    ring_detail::View view_;
    uint64_t written_ = 0, read_seen_ = 0;
};

class RingReader {
  public:
    RingReader() = default;
    RingReader(std::byte* memory, uint64_t capacity)
        : view_{reinterpret_cast<RingPositions*>(memory), memory + kRingHeaderBytes, capacity} {}

    // Copies the next message out, so that what is checked later cannot change any more. kCorrupt: its length
    // or the producer's position makes no sense; nothing was read beyond the ring, and no further message
    // will be.
    RingResult pop(std::span<std::byte> buffer, size_t* bytes) {
        if (corrupt_) return RingResult::kCorrupt;
        if (read_ == written_seen_) {
            written_seen_ = view_.positions->written.load(std::memory_order_acquire);
            if (read_ == written_seen_) return RingResult::kEmpty;
        }
        const uint64_t filled = written_seen_ - read_;
        uint32_t length = 0;
        if (filled > view_.capacity || filled % 8 != 0) return refuse();
        view_.get(read_, &length, sizeof length);
        if (length > buffer.size() || ring_slot_bytes(length) > filled) return refuse();
        view_.get(read_ + sizeof length, buffer.data(), length);
        *bytes = length;
        read_ += ring_slot_bytes(length);
        view_.positions->read.store(read_, std::memory_order_release);
        return RingResult::kOk;
    }
    bool empty() const {
        return !corrupt_ && view_.positions->written.load(std::memory_order_acquire) == read_;
    }

  private:
    RingResult refuse() {
        corrupt_ = true;
        return RingResult::kCorrupt;
    }
    ring_detail::View view_;
    uint64_t read_ = 0, written_seen_ = 0;
    bool corrupt_ = false;
};

}  // namespace longshore
