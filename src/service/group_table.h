// The supervisor's side of a node's groups: their slots and their data in the node's memory. A group is made
// when its first local member joins and goes when all that joined have left. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/node_memory.h"

namespace longshore {

class GroupTable {
  public:
    explicit GroupTable(const NodeMemory& memory);

    // False: the table is full, or `members` is not a group this node can serve.
    bool join(GroupId id, const std::vector<Member>& members, GroupSlot* slot);
    void leave(GroupId id);
    size_t open() const { return groups_.size(); }

  private:
    struct Group {
        GroupSlot slot;
        uint32_t joined = 0;
        uint64_t offset = 0, bytes = 0;
    };
    bool plausible(const std::vector<Member>& members, uint32_t* local_count) const;
    uint64_t allocate(uint64_t bytes);
    void release(uint64_t offset, uint64_t bytes);

    NodeMemory memory_;
    std::map<uint64_t, Group> groups_;
    std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never adjacent
    std::vector<uint32_t> free_slots_;
};

}  // namespace longshore
