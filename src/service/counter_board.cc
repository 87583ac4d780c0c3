#include "service/counter_board.h"

#include <time.h>

namespace longshore {

static uint64_t process_cpu_ns() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

void CounterBoard::publish(const TimeBook::Times& times, const ServiceCounters& engine,
                           const FabricCounters& fabric, uint64_t now_ns) {
    last_ns_ = now_ns;
    has_news_ = false;
    const auto set = [](Atomic<uint64_t>& word, uint64_t value) {
        word.store(value, std::memory_order_relaxed);
    };
    set(slot_.busy_ns, times.busy_ns);
    set(slot_.copy_ns, times.copy_ns);
    set(slot_.network_ns, times.network_ns);
    set(slot_.idle_ns, times.idle_ns);
    set(slot_.cpu_ns, process_cpu_ns());
    set(slot_.sleeps, times.sleeps);
    set(slot_.copies, engine.copies);
    set(slot_.reads, engine.reads);
    set(slot_.messages_sent, fabric.messages_sent);
    set(slot_.messages_refused, fabric.refused + engine.malformed_messages);
    set(slot_.stale_messages, engine.stale_messages);
    set(slot_.notifications_resent, engine.notifications_resent);
    set(slot_.bytes_mapped, fabric.bytes_mapped);
    set(slot_.bytes_peer_copied, fabric.bytes_peer_copied);
    set(slot_.bytes_bounced, fabric.bytes_bounced);
    set(slot_.bytes_to_host, fabric.bytes_to_host);
    set(slot_.bytes_between_nodes, engine.bytes_between_nodes);
    set(slot_.bytes_staged, engine.bytes_staged);
    set(slot_.bytes_relayed, engine.bytes_relayed);
    set(slot_.taken, engine.taken);
    for (uint32_t i = 0; i < kCollectives; ++i) {
        const LateCounters& late = engine.late[i];
        LateWords& words = slot_.late[i];
        set(words.received, late.received);
        set(words.late, late.late);
        set(words.handed_on, late.handed_on);
        set(words.rescued, late.rescued);
        set(words.parked, late.parked);
        set(words.parked_ns, late.parked_ns);
        set(words.parked_longest_ns, late.parked_longest_ns);
        set(words.readers, late.readers);
    }
    const uint32_t told = slot_.told.load(std::memory_order_relaxed);
    slot_.told.store((told | 1) + 1, std::memory_order_release);
}

}  // namespace longshore
