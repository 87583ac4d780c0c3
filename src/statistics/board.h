// What the ranks of a machine count and note, in one file of shared memory that outlives them: a head about
// the job, and a slot for each rank. One rank makes it, the others map it, and the keeper (keeper.h) reads it
// when ranks are gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/selection.h"
#include "fabric/shm/system.h"
#include "statistics/figures.h"
#include "statistics/spans.h"

namespace longshore::statistics {

enum class RankState : uint32_t { kAbsent, kRunning, kFinalized };

struct BoardHead {
    uint32_t magic, slot_count;
    uint64_t slot_bytes;
    std::array<uint8_t, 16> token;  // so that a rank knows the file for the one that it was told of
    uint32_t size;                  // ranks of the job
    // Known when the job has begun.
    uint32_t nodes, offload, wanted, launched;
    SelectionPoint place;
    char reach[24];                           // ls_memory_reach
    char stats_path[4096], trace_path[4096];  // "": not wanted
    char host[256];
    char folder[4096];  // in which the first rank of the machine began
    uint32_t launcher;  // the process that started it
};

struct BoardSlot {
    std::atomic<RankState> state;
    uint32_t pid, rank, node;
    uint64_t started_ns, origin_ns;  // of the rank's MPI_Init, and of the trace's times
    Figures figures;
    SpanList spans;  // pages that are never touched take no memory
};

class Board {
  public:
    Board() = default;
    // The whole file, and its descriptor; empty: it cannot be had.
    static Board create(uint32_t slot_count);
    // The board in a file that another process has made; empty if it is not one of this build.
    static Board open(Fd file);

    explicit operator bool() const { return static_cast<bool>(memory_); }
    const Fd& file() const { return file_; }
    BoardHead& head() const { return *reinterpret_cast<BoardHead*>(memory_.data()); }
    uint32_t size() const { return head().slot_count; }
    BoardSlot& slot(uint32_t index) const;

  private:
    Fd file_;
    Mapping memory_;
};

}  // namespace longshore::statistics
