// Reads of other nodes' memory that this service process has under way, and where their bytes belong.
// Keeps: what each read has got so far. Promises: each ends once, with an event in `done`, when all its bytes
// have come or end() is called. Asks: nothing; who receives bytes tells it. One thread.
#pragma once

#include <deque>

#include "fabric/fabric.h"
#include "fabric/pending_reads.h"

namespace longshore {

class TcpReads {
  public:
    static constexpr uint32_t kNone = UINT32_MAX;

    // Both are borrowed.
    TcpReads(NodeCopier& copier, std::deque<FabricEvent>& done) : copier_(copier), done_(done) {}

    bool full() const { return reads_.full(); }
    // Unless full(). Returns its place, by which all that follows names it.
    uint32_t add(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
                 uint64_t bytes, uint64_t id) {
        return reads_.add(owner, region, offset, to, bytes, id);
    }
    // Nothing of it has come. The number by which its owner is asked for it from now on.
    uint64_t begin_anew(uint32_t at) { return reads_.begin_anew(at); }
    const PendingRead& operator[](uint32_t at) { return reads_[at]; }
    // kNone: not what `owner` is asked for now.
    uint32_t find(ServiceAddress owner, uint64_t number) {
        return reads_.find(owner, number) != nullptr ? static_cast<uint32_t>(number) : kNone;
    }
    // Where those of its bytes belong that begin `skip` bytes into it, if that is mapped here; else empty.
    std::span<std::byte> place(uint32_t at, uint64_t skip, uint64_t bytes);
    // They have come, and do not lie there yet.
    void write(uint32_t at, uint64_t skip, std::span<const std::byte> bytes);
    // So many more have come, and lie where they belong.
    void note_arrived(uint32_t at, uint64_t bytes) { reads_[at].received += bytes; }
    // Its bytes are sought in a block that comes ahead, from there on.
    void set_part(uint32_t at, uint64_t part_offset) { reads_[at].part_offset = part_offset; }

    bool end_if_over(uint32_t at);
    void end(uint32_t at, MoveResult result);
    // Calls `what(place)` for each read of `owner`; it may end that one.
    template <class What>
    void for_each_of(ServiceAddress owner, What what) {
        reads_.for_each_of(owner, what);
    }

  private:
    NodeCopier& copier_;
    std::deque<FabricEvent>& done_;
    PendingReads reads_;
};

}  // namespace longshore
