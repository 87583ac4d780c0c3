#include "memory/keep.h"

/* Pages that nobody takes while so many times their number is allocated are of no use. So giving back costs
 * at most a fault for every so many pages that the program allocates. */
enum { kPeriodTimes = 4, kPeriodPagesMin = (1u << 30) / 4096 };

static uint32_t less(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

void longshore_keep_begin(longshore_keep* keep, uint32_t processors) {
    *keep = (longshore_keep){.useful = kKeepFirstPages, .processors = processors != 0 ? processors : 1};
}

uint32_t longshore_keep_max(const longshore_keep* keep, uint32_t live) {
    if (keep->is_short) return 0;
    const uint32_t room = keep->own_max > live ? keep->own_max - live : 0; /* 0 until somebody has looked */
    return less(keep->useful, room > kKeepLeastPages ? room : kKeepLeastPages);
}

/* Half of the pages that lay idle all the time go back. */
static void end_period(longshore_keep* keep, uint32_t kept) {
    if (keep->kept_min > kKeepLeastPages)
        keep->useful = less(keep->useful, keep->kept_max - keep->kept_min / 2);
    keep->missed /= 2; /* what comes back so late is not missed */
    keep->kept_min = keep->kept_max = kept;
    keep->taken = 0;
}

void longshore_keep_took(longshore_keep* keep, uint32_t pages, uint32_t fresh, uint32_t kept,
                         uint32_t live_max) {
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

/* How many pages, live and kept, this process may have. What it has allocated anew since it last looked is
 * not left for keeping; what it only frees is. An eighth of the memory stays free of kept pages. Of what is
 * available beyond it, this process may add its share of one half: the others look at the same figures at the
 * same time. Between an eighth and a sixteenth nobody adds and nobody gives, so that processes do not sway
 * together. Below, each keeps at most half of what it has. */
static uint64_t own_max(const longshore_keep* keep, const longshore_memory_limit* limit, int stalls,
                        uint64_t own) {
    const uint64_t total = limit->bytes, available = limit->available;
    if (available < total / 16 || stalls) return own / 2;
    if (available < total / 8) return own;
    return own + (available - total / 8) / 2 / keep->processors / 4096;
}

void longshore_keep_look(longshore_keep* keep, const longshore_machine_memory* memory, uint32_t live,
                         uint32_t kept) {
    const uint64_t own = (uint64_t)live + kept;
    uint64_t most = memory->limit_count != 0 ? UINT32_MAX : (uint64_t)live + kKeepFirstPages;
    keep->is_short = 0;
    for (uint32_t i = 0; i < memory->limit_count; ++i) {
        const longshore_memory_limit* limit = &memory->limits[i];
        const uint64_t here = own_max(keep, limit, memory->stalls, own);
        if (here < most) most = here;
        keep->is_short |= limit->available < limit->bytes / 32;
    }
    keep->own_max = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}
