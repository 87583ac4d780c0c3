// Reads from other nodes that are posted and have not come: since when, and how many bytes of them there may
// be, which follows from how quickly they come (engine/read_window.h). Pure: the loop says what time it is.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/read_window.h"

namespace longshore {

class ReadsUnderWay {
  public:
    struct Read {
        uint64_t posted_ns = 0, bytes = 0;
        uint64_t behind = 0;  // bytes that were under way already
    };
    // Ids of reads are less than `reads_max`; those of moves through staging memory are not: its slots are
    // its window.
    ReadsUnderWay(uint32_t reads_max, uint64_t chunk_bytes)
        : reads_(reads_max), window_({.bytes_max = reads_max * chunk_bytes}) {}

    void post(uint32_t id, uint64_t bytes, uint64_t now_ns) {
        if (id >= reads_.size()) return;
        window_.on_post(bytes_, now_ns);
        reads_[id] = {now_ns, bytes, bytes_};
        bytes_ += bytes;
    }
    // It has come. A read of no bytes: none of that id was under way.
    Read finish(uint32_t id, uint64_t now_ns) {
        if (id >= reads_.size() || reads_[id].bytes == 0) return {};
        const Read read = std::exchange(reads_[id], {});
        bytes_ -= read.bytes;
        window_.on_read(read.bytes, read.behind, read.posted_ns, now_ns);
        return read;
    }
    // Whether it is time to say how long this process waits for its core.
    bool asks_core_wait(uint64_t now_ns) const { return bytes_ != 0 && now_ns - asked_ns_ >= kCoreWaitNs; }
    void set_core_wait(uint64_t wait_ns, uint64_t now_ns) {
        asked_ns_ = now_ns;
        window_.on_core_wait(wait_ns, now_ns);
    }
    // Bytes that may be under way.
    uint64_t window_bytes() const { return window_.bytes(); }

  private:
    static constexpr uint64_t kCoreWaitNs = 1'000'000;
    std::vector<Read> reads_;  // by id
    uint64_t bytes_ = 0;
    ReadWindow window_;
    uint64_t asked_ns_ = 0;
};

}  // namespace longshore
