// What the shared memory of one node says about its job, read by somebody who is no part of it. Nothing there
// is trusted: it may be half-written, change while it is read, or be no node's memory at all. Everything that
// comes out lies within bounds; what does not belong together is left out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/node_memory.h"
#include "fabric/shm/system.h"

namespace longshore::tools {

// A descriptor of its own of the memory file that the process has open under this name, and its bytes.
Fd open_memory_file(int pid, const std::string& name, uint64_t* bytes);

struct ServiceView {
    uint32_t service = 0, pid = 0, incarnation = 0;  // pid 0: it does not run
    int core = -1;                                   // -1: none of its own
    uint64_t busy_ns = 0, copy_ns = 0, network_ns = 0, idle_ns = 0, cpu_ns = 0, sleeps = 0;
    uint64_t bytes_moved = 0, bytes_between_nodes = 0;  // the latter are part of the former
    uint64_t taken = 0;  // moves for ranks of other service processes of the node
};

struct RankView {
    uint32_t local = 0, pid = 0, service = 0;
    std::optional<uint32_t> rank;  // in the job
    bool attached = false;
    uint32_t open = 0;  // operations
    uint64_t bytes_by_service = 0, bytes_by_rank = 0;
};

// An operation that one rank has entered and that is not over.
struct OpenRecord {
    LocalRank local;
    RecordId record;
    RecordLook look;
    uint64_t group = 0;
    std::optional<uint64_t> started_ns;  // CLOCK_MONOTONIC; known once the rank has waited for it
    std::vector<uint32_t> holders;       // workers (WorkerId::index) that hold claims on its chunks
};

struct MemberView {
    uint32_t group_rank = 0, local = 0;
    bool entered = false;
};

class NodeView {
  public:
    // The node whose supervisor has this pid. Null: it is none, or its memory may not be read.
    static std::unique_ptr<NodeView> open(int supervisor);
    // `sight` is SightLayout::kTraceAt bytes. Both must outlive the view, and `memory` be writable: its first
    // page is written back to itself.
    static std::unique_ptr<NodeView> look_at(std::byte* memory, uint64_t bytes, std::byte* sight);

    uint64_t job() const;  // the same on all nodes of a job; 0: no rank has attached yet
    uint32_t job_size() const;
    uint32_t wait_report_s() const;
    uint32_t node() const { return memory_.node().value; }
    uint32_t node_count() const { return memory_.node_count(); }
    uint32_t rank_count() const { return memory_.rank_count(); }
    std::vector<ServiceView> services() const;
    std::vector<RankView> ranks() const;
    std::vector<OpenRecord> open_records() const;
    bool still_open(const OpenRecord& record) const;
    // This node's members of a group and whether they have entered its operation. Empty: no such group here.
    std::vector<MemberView> members(uint64_t group, uint64_t sequence) const;

  private:
    std::optional<OpenRecord> read_record(LocalRank local, RecordId id) const;
    std::vector<uint32_t> holders_of(const OperationRecord& record, uint64_t generation) const;

    Mapping own_memory_, own_sight_;
    NodeMemory memory_;
    std::byte* sight_ = nullptr;
};

}  // namespace longshore::tools
