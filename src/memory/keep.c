#include "memory/keep.h"

/* Pages that nobody takes while so many times their number is allocated are of no use. So giving back costs at most
 * a fault for every so many pages that the program allocates. */
enum { kPeriodTimes = 4, kPeriodPagesMin = (1u << 30) / 4096 };

static uint32_t less(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

void longshore_keep_begin(longshore_keep* keep, uint32_t processors) {
    *keep = (longshore_keep){.useful = kKeepFirstPages,
                             .room = kKeepLeastPages, /* until somebody has looked */
                             .processors = processors != 0 ? processors : 1};
}

uint32_t longshore_keep_max(const longshore_keep* keep) {
    return less(keep->useful, keep->room);
}

/* Half of the pages that lay idle all the time go back. */
static void end_period(longshore_keep* keep, uint32_t kept) {
    if (keep->kept_min > kKeepLeastPages) keep->useful = less(keep->useful, keep->kept_max - keep->kept_min / 2);
    keep->missed /= 2; /* what comes back so late is not missed */
    keep->kept_min = keep->kept_max = kept;
    keep->taken = 0;
}

void longshore_keep_took(longshore_keep* keep, uint32_t pages, uint32_t fresh, uint32_t kept, uint32_t live_max) {
    const uint32_t again = less(fresh, keep->missed);
    keep->missed -= again;
    if (keep->useful < live_max) keep->useful += less(again, live_max - keep->useful);
    keep->kept_min = less(keep->kept_min, kept);
    keep->taken += pages;
    const uint64_t period = (uint64_t)kPeriodTimes * keep->useful;
    if (keep->taken >= (period > kPeriodPagesMin ? period : kPeriodPagesMin)) end_period(keep, kept);
}

void longshore_keep_freed(longshore_keep* keep, uint32_t kept) {
    if (kept > keep->kept_max) keep->kept_max = kept;
}

void longshore_keep_gave_back(longshore_keep* keep, uint32_t pages) {
    keep->missed = pages < UINT32_MAX - keep->missed ? keep->missed + pages : UINT32_MAX;
}

/* An eighth of the memory stays free of kept pages. Of what is available beyond it, this process may add its share
 * of one half: the others look at the same figures at the same time. Between an eighth and a sixteenth nobody adds
 * and nobody gives, so that processes do not sway together. */
static uint32_t room_under(const longshore_keep* keep, const longshore_memory_limit* limit, int stalls, uint32_t kept) {
    const uint64_t total = limit->bytes, available = limit->available;
    if (available < total / 32) return 0;
    if (available < total / 16 || stalls) return kept / 2;
    uint64_t room = kept;
    if (available > total / 8) room += (available - total / 8) / 2 / keep->processors / 4096;
    if (room < kKeepLeastPages) room = kKeepLeastPages;
    return room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
}

void longshore_keep_look(longshore_keep* keep, const longshore_node_memory* memory, uint32_t kept) {
    keep->room = memory->limit_count != 0 ? UINT32_MAX : kKeepFirstPages;
    for (uint32_t i = 0; i < memory->limit_count; ++i)
        keep->room = less(keep->room, room_under(keep, &memory->limits[i], memory->stalls, kept));
    keep->is_short = keep->room == 0;
}
