#include "host/node_role.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/prng.h"
#include "host/job_exchange.h"
#include "host/places.h"

namespace longshore {

int NodeRole::start_job() {
    let_others_read(c_);
    const auto pid = static_cast<uint32_t>(getpid());
    c_.probe_value = mix64(now_ns() ^ pid);
    const Identity mine{machine_identity(c_.options),
                        computer_identity(),
                        reinterpret_cast<uint64_t>(&c_.probe_value),
                        c_.probe_value,
                        pid,
                        c_.alive ? 1u : 0u,
                        seat_of_process(0)};
    return start_exchange(c_, mine);
}

int NodeRole::test_job() {
    return test_attaching(c_);
}

bool NodeRole::leave_job(bool is_forked) {
    if (is_forked) {
        // The descriptors are copies of the parent's; its mapping is not there in this child.
        c_.groups.clear();
        (void)c_.engine.release();
        return false;
    }
    talk_to_supervisor(c_);
    for (ls_group* group : c_.groups) delete group;
    note_leaving(c_);
    // Only closing it would not, where a forked child still has it.
    if (c_.control) shutdown(c_.control.get(), SHUT_RDWR);
    return true;
}

// --- operations

int NodeRole::test_operation(ls_operation& operation, int* moved) {
    return operations_.test(operation, moved);
}

void NodeRole::free_operation(ls_operation* operation) {
    ls_group* group = operation->group;
    if (operations_.free(operation) && group->dying) free_group(group);
}

void NodeRole::describe(const ls_operation& operation, char* line, size_t bytes) {
    describe_wait(c_, operation, line, bytes);
}

void NodeRole::advance() {
    operations_.advance();
}

// --- sleeping

void NodeRole::sleep(uint64_t timeout_ns) {
    if (!c_.engine) return;
    // What happened since the last sleep ended may not have been looked at yet: then this one ends at once.
    c_.events_seen = sleep_rank(c_.memory.rank(c_.engine->self()), c_.events_seen, timeout_ns);
}

void NodeRole::begin_sleep(ls_sleeper* sleeper) const {
    if (!c_.engine) return;
    RankSlot& slot = c_.memory.rank(c_.engine->self());
    sleeper->rank = &slot;
    sleeper->seen = slot.events.load(std::memory_order_acquire);
}

// --- sight

void NodeRole::rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const {
    if (!c_.engine) return;
    const RankSlot& slot = c_.memory.rank(c_.engine->self());
    for (uint32_t i = 0; i < kCollectives; ++i)
        out[i] = {slot.bytes_by_service[i].load(std::memory_order_relaxed),
                  slot.bytes_by_rank[i].load(std::memory_order_relaxed),
                  slot.bytes_landed[i].load(std::memory_order_relaxed)};
}

// A service process may have a core only later on a machine with more to do, and then says what it has done.
static void wait_until_told(const ServiceSlot& slot, uint64_t until_ns) {
    const uint32_t before = slot.told.load(std::memory_order_acquire);
    while (before % 2 != 0 && slot.told.load(std::memory_order_acquire) == before && now_ns() < until_ns)
        usleep(100);
}

uint32_t NodeRole::services(ls_service_stats* out, uint32_t max) {
    if (!c_.engine) return 0;
    talk_to_supervisor(c_);  // what service processes have said is told before what they did
    const uint32_t count = c_.options.service_count;
    const uint64_t until_ns = now_ns() + 200'000'000;
    for (uint32_t s = 0; s < std::min(count, max); ++s) {
        const ServiceId id{static_cast<uint16_t>(s)};
        const ServiceSlot& slot = c_.memory.service(id);
        wait_until_told(slot, until_ns);
        const auto get = [](const Atomic<uint64_t>& word) { return word.load(std::memory_order_relaxed); };
        const uint32_t core = SightLayout::slot(c_.sight.data(), id).core.load();
        out[s] = {c_.node,
                  s,
                  slot.incarnation.load(),
                  core - 1,
                  get(slot.busy_ns),
                  get(slot.copy_ns),
                  get(slot.network_ns),
                  get(slot.idle_ns),
                  get(slot.cpu_ns),
                  get(slot.sleeps),
                  get(slot.copies),
                  get(slot.reads),
                  get(slot.messages_sent),
                  get(slot.messages_refused),
                  get(slot.stale_messages),
                  get(slot.notifications_resent),
                  get(slot.bytes_mapped),
                  get(slot.bytes_peer_copied),
                  get(slot.bytes_bounced),
                  get(slot.bytes_between_nodes),
                  get(slot.bytes_staged),
                  get(slot.bytes_relayed),
                  get(slot.taken),
                  get(slot.bytes_to_host),
                  {}};
        for (uint32_t i = 0; i < kCollectives; ++i) {
            const LateWords& late = slot.late[i];
            out[s].late[i] = {get(late.received),          get(late.late),   get(late.handed_on),
                              get(late.rescued),           get(late.parked), get(late.parked_ns),
                              get(late.parked_longest_ns), get(late.readers)};
        }
    }
    return count;
}

}  // namespace longshore
