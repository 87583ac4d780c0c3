// Moves bytes between ranks of one machine: memcpy where both ends are mapped here (the node's memory, what
// ranks share of their own), process_vm_readv or _writev where one is, through a small chunk where none is.
// Used by service processes and by waiting ranks, one thread each.
#pragma once

#include <stdlib.h>

#include <memory>
#include <span>

#include "engine/mover.h"
#include "engine/region_use.h"
#include "fabric/shm/mapped_processes.h"

namespace longshore {

struct CopierCounters {
    uint64_t bytes_mapped = 0, bytes_peer_copied = 0, bytes_bounced = 0;
    uint64_t refused = 0;     // spans outside their region
    int forbidden_error = 0;  // errno of the first time the system forbade it; 0: never
};

class NodeCopier {
  public:
    struct Options {
        bool is_rank = false;  // this process is rank `self` of the node, and its regions are its own memory
        LocalRank self{};
        // Test mode: memory of ranks is reached by peer copies only, the arena too. (Other regions are never
        // mapped in a service process in any mode.)
        bool memory_inaccessible = false;
        // A service process's staging memory; borrowed.
        std::span<std::byte> staging = {};
        bool staging_only = false;  // nothing goes from one rank's memory into another's
    };
    NodeCopier(const NodeMemory& memory, const Options& options);

    // `working_set` as copy_bytes() has it.
    MoveResult copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t working_set = 0);
    // From a span of any process of this machine: how ranks of another emulated node are read.
    MoveResult read(const ProcessSpan& from, uint64_t offset, const MemoryRef& to, uint64_t bytes);
    MoveResult write(std::span<const std::byte> from, const MemoryRef& to);
    MoveResult fetch(const MemoryRef& from, std::span<std::byte> to);
    // Where such bytes of a rank lie in this process; empty: they are not mapped here, or not in one piece.
    std::span<std::byte> find_mapped(const MemoryRef& ref, uint64_t bytes, bool write);
    const CopierCounters& counters() const { return counters_; }

  private:
    // One end of a move: `run` bytes from there on are reached alike.
    struct Place {
        bool here = false;
        uint64_t address = 0;
        uint32_t pid = 0;  // if not here
        uint64_t run = 0;
    };
    // A span of a process, from an offset on.
    struct Where {
        ProcessSpan span;
        uint64_t offset = 0;
        bool here = false;   // it is this process
        RegionUse use = {};  // of a rank's region
    };
    MoveResult resolve(const MemoryRef& ref, uint64_t bytes, Where* out);
    MoveResult resolve_span(const ProcessSpan& span, uint64_t offset, uint64_t bytes, Where* out);
    Place place_of(const Where& where, uint64_t bytes, bool write);
    MoveResult move(Where from, Where to, uint64_t bytes, uint64_t working_set);
    MoveResult move_run(const Place& from, const Place& to, uint64_t bytes, uint64_t working_set);
    MoveResult step(const Place& from, const Place& to, uint64_t bytes, uint64_t working_set);
    MoveResult bounce(const Place& from, const Place& to, uint64_t bytes);
    MoveResult peer(const Place& remote, uint64_t here, uint64_t bytes, bool write);

    NodeMemory memory_;
    Options options_;
    CopierCounters counters_;
    MappedProcesses processes_;
    struct Free {
        void operator()(void* memory) const { free(memory); }
    };
    std::unique_ptr<std::byte, Free> chunk_;
};

}  // namespace longshore
