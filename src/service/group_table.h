// The supervisor's side of a node's groups: their slots and their data in the node's memory. A group is made
// when its first local member joins and goes when all that joined have left. Its slot and data are used again
// only when no service process can still be looking at them. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/node_memory.h"
#include "fabric/shm/control.h"

namespace longshore {

class GroupTable {
  public:
    explicit GroupTable(const NodeMemory& memory);

    JoinResult join(GroupId id, const std::vector<Member>& members, GroupSlot* slot);
    void leave(GroupId id);
    // There will be more room once service processes have turned.
    bool waits_for_services() const { return !leaving_.empty(); }
    size_t open() const { return groups_.size(); }
    // A service process that does not run looks at nothing.
    void service_started(ServiceId service) { running_[service.value] = true; }
    void service_ended(ServiceId service);

  private:
    struct Group {
        GroupSlot slot;
        uint32_t joined = 0;
        uint64_t offset = 0, bytes = 0;
    };
    // A group that nobody finds any more, until every service process that ran when it went has finished the
    // turn of its loop that it was in.
    struct Leaving {
        Group group;
        uint32_t waiting = 0;              // a bit per service process
        std::vector<uint64_t> heartbeats;  // when it went
    };
    void reuse_what_left();
    bool plausible(const std::vector<Member>& members, uint32_t* local_count) const;
    uint64_t allocate(uint64_t bytes);
    void release(uint64_t offset, uint64_t bytes);

    NodeMemory memory_;
    std::map<uint64_t, Group> groups_;
    std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never adjacent
    std::vector<uint32_t> free_slots_;
    std::vector<Leaving> leaving_;
    std::vector<bool> running_;  // by service process
};

}  // namespace longshore
