// The spans of rows that say for each rank where its block lies (Row::Form::kSpans), in chunks of a pool.
#pragma once

#include "engine/service/context.h"

namespace longshore {

class Spans {
  public:
    void carve(Carver& c, uint32_t rows_max) {
        c.pool(&chunks_, 2 * rows_max + kRanksPerNodeMax / kPerChunk);
    }
    // Adds the spans of a part of a row behind those of the parts before. False: no room, or they are not
    // well formed.
    bool append(uint32_t* first, const Row& part) {
        SpanReader reader(part);
        uint32_t last = *first, at = part.span_first;
        while (last != kNone && chunks_[last].next != kNone) last = chunks_[last].next;
        BlockSpan span;
        for (uint32_t n = 0; n < part.spans_here; ++n, ++at) {
            if (!reader.next(&span)) return false;
            if (at % kPerChunk == 0) {
                const uint32_t chunk = chunks_.take();
                if (chunk == kNone) return false;
                (last == kNone ? *first : chunks_[last].next) = chunk;
                last = chunk;
            }
            chunks_[last].spans[at % kPerChunk] = span;
        }
        return true;
    }
    BlockSpan at(uint32_t first, uint32_t index) const {
        for (uint32_t n = index / kPerChunk; n != 0; --n) first = chunks_[first].next;
        return chunks_[first].spans[index % kPerChunk];
    }
    void give(uint32_t* first) {
        while (*first != kNone) {
            const uint32_t chunk = *first;
            *first = chunks_[chunk].next;
            chunks_.give(chunk);
        }
    }

  private:
    static constexpr uint32_t kPerChunk = 16;
    struct Chunk {
        uint32_t next = kNone;
        BlockSpan spans[kPerChunk];
    };
    Pool<Chunk> chunks_;
};

}  // namespace longshore
