// Frames under way between service processes, and what was said in them.
#pragma once

#include <array>
#include <vector>

#include "engine/message.h"

namespace longshore::scale {

struct Frame {
    ServiceAddress from, to;
    uint32_t length = 0;
    std::array<std::byte, kFrameBytesMax> bytes;
    std::span<const std::byte> content() const { return {bytes.data(), length}; }
};

// In order; memory is kept for the next round.
class FrameQueue {
  public:
    Frame& add() {
        if (count_ == frames_.size()) frames_.emplace_back();
        return frames_[count_++];
    }
    size_t size() const { return count_; }
    Frame& operator[](size_t i) { return frames_[i]; }
    void clear() { count_ = 0; }
    void swap(FrameQueue& other) {
        frames_.swap(other.frames_);
        std::swap(count_, other.count_);
    }

  private:
    std::vector<Frame> frames_;
    size_t count_ = 0;
};

struct MessageCounts {
    std::array<uint64_t, kMessageKinds + 1> of_kind{};
    uint64_t frames = 0, rows = 0, bytes = 0;

    void count(std::span<const std::byte> frame);
    uint64_t of(MessageKind kind) const { return of_kind[static_cast<size_t>(kind)]; }
    // Without data.
    uint64_t control() const;
    bool operator==(const MessageCounts&) const = default;
};

const char* name_of(MessageKind kind);

}  // namespace longshore::scale
