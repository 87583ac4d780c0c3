// Reads from other nodes that are in flight: at most so many, and so many bytes of them at a time.
#pragma once

#include "engine/service/read_queue.h"

namespace longshore {

class Reads {
  public:
    explicit Reads(const ServiceContext& context) : context_(context) {}
    void carve(Carver& c) { c.pool(&pool_, context_.limits.reads_max); }
    void set_window(uint64_t bytes) { window_ = bytes; }
    bool has_room() const { return pool_.room() != 0 && bytes_ < window_; }
    bool idle() const { return pool_.in_use() == 0; }
    // Returns its number. There has to be room.
    uint32_t begin(const TakenChunk& taken) {
        const uint32_t id = pool_.take();
        pool_[id].taken = taken;
        bytes_ += taken.bytes;
        return id;
    }
    TakenChunk end(uint32_t id) {
        LONGSHORE_CHECK(id < pool_.made && pool_[id].taken.queued != kNone);
        const TakenChunk taken = pool_[id].taken;
        pool_[id].taken.queued = kNone;
        pool_.give(id);
        bytes_ -= taken.bytes;
        return taken;
    }

  private:
    struct Entry {
        uint32_t next = kNone;
        TakenChunk taken;
    };
    const ServiceContext& context_;
    Pool<Entry> pool_;
    uint64_t bytes_ = 0;
    uint64_t window_ = UINT64_MAX;
};

}  // namespace longshore
