// All interleavings of 2 or 3 participants of the claim protocol, the doorbell and the completion words. Each
// rule has a planted bug that must be found. Sequential consistency is assumed (explorer_atomic.h).
#include "explorer.h"

#include <cstdio>

#include "base/atomic.h"
#include "engine/claim.h"

namespace longshore::explorer {
namespace {

constexpr uint64_t kSchedulesMax = 20000000;
constexpr WorkerId kService = {0, 1}, kSuccessor = {0, 2};
const WorkerId kRank = rank_worker(LocalRank{0}), kOther = rank_worker(LocalRank{1});

Explorer explorer;
Atomic<ChunkWord> word;
int holders, moved, most;
bool bug;

void move(uint64_t generation) {
    most = ++holders > most ? holders : most;
    explorer_yield();
    ++moved;
    --holders;
    settle_chunk(word, generation, ChunkState::kLanded);
}

Explorer::Scenario two_claim() {
    const auto worker = [](WorkerId w) {
        return [w] {
            if (!bug) {
                if (claim_chunk(word, 7, w)) move(7);
                return;
            }
            // Planted: looks, then stores.
            if (chunk_state(word.load()) != ChunkState::kFree) return;
            word.store(chunk_word(7, ChunkState::kClaimed, w));
            move(7);
        };
    };
    return {[] {
                word = chunk_word(7, ChunkState::kFree);
                holders = moved = most = 0;
            },
            {worker(kService), worker(kRank), worker(kOther)},
            [] {
                return std::string(moved != 1 ? "moved not exactly once" : most > 1 ? "two holders" : "");
            }};
}

// A worker with a stale view against the owner, who recycles the record.
int stale_moves;
Explorer::Scenario recycle() {
    return {[] {
                word = chunk_word(7, ChunkState::kFree);
                holders = moved = most = stale_moves = 0;
            },
            {[] {
                 const uint64_t seen = bug ? chunk_generation(word.load()) : 7;
                 if (claim_chunk(word, seen, kService)) {
                     if (seen != 7) ++stale_moves;
                     move(seen);
                 }
             },
             [] {
                 if (claim_chunk(word, 7, kRank)) move(7);
                 if (chunk_settled(word.load())) {
                     word.store(chunk_word(8, ChunkState::kFree));
                     if (claim_chunk(word, 8, kRank)) move(8);
                 }
             }},
            [] { return std::string(stale_moves ? "a stale view took a chunk of the next use" : ""); }};
}

// The service dies at any point of its claim; a rank frees what it held while the successor works.
Explorer::Scenario lost_claim() {
    return {[] {
                word = chunk_word(7, ChunkState::kClaimed, kService);  // it died holding this
                holders = moved = most = 0;
            },
            {[] {
                 if (!bug) {
                     free_lost_claim(word, kService);
                     return;
                 }
                 // Planted: whoever holds it, frees it.
                 const ChunkWord seen = word.load();
                 if (chunk_state(seen) == ChunkState::kClaimed && chunk_worker(seen).index == kService.index)
                     word.store(chunk_word(chunk_generation(seen), ChunkState::kFree));
             },
             [] {
                 free_lost_claim(word, kService);
                 if (claim_chunk(word, 7, kSuccessor)) move(7);
             },
             [] {
                 if (claim_chunk(word, 7, kRank)) move(7);
             }},
            [] { return std::string(moved > 1 || most > 1 ? "moved twice" : ""); }};
}

// Sleeper: sleeping = 1, look again, block. Ringer: events + 1, wake if sleeping.
Atomic<uint32_t> events, sleeping, work;
bool woken;
Explorer::Scenario doorbell() {
    return {[] {
                events = sleeping = work = 0;
                woken = false;
            },
            {[] {
                 for (int round = 0; round < 2; ++round) {
                     uint32_t seen = events.load();
                     if (work.load() != 0) return;
                     if (bug) {  // Planted: does not look again.
                         sleeping.store(1);
                         seen = events.load();
                     } else {
                         sleeping.store(1);
                         if (events.load() != seen) continue;
                     }
                     // As a futex: blocks only while the word is still what was seen.
                     const std::function<bool()> wake = [seen] { return woken || events.peek() != seen; };
                     const std::function<bool()> only_woken = [] { return woken; };
                     explorer_yield();
                     if (!wake()) explorer.block_until(only_woken);
                     sleeping.store(0);
                 }
             },
             [] {
                 work.store(1);
                 events.fetch_add(1);
                 if (sleeping.load() != 0) woken = true;
             }},
            [] { return std::string(); }};
}

// Two workers settle the two last chunks of a block: at least one of them announces it.
Atomic<ChunkWord> words[2];
int announced;
Explorer::Scenario completion() {
    const auto worker = [](int mine) {
        return [mine] {
            const bool other_before = bug && chunk_settled(words[1 - mine].load());
            words[mine].exchange(chunk_word(7, ChunkState::kLanded));
            const bool both =
                bug ? other_before : chunk_settled(words[0].load()) && chunk_settled(words[1].load());
            if (both) ++announced;
        };
    };
    return {[] {
                words[0] = chunk_word(7, ChunkState::kClaimed, kService);
                words[1] = chunk_word(7, ChunkState::kClaimed, kRank);
                announced = 0;
            },
            {worker(0), worker(1)},
            [] { return std::string(announced == 0 ? "nobody announced the block" : ""); }};
}

bool check(const char* name, Explorer::Scenario (*make)()) {
    bug = false;
    const Explorer::Outcome good = explorer.explore(make(), kSchedulesMax);
    bug = true;
    const Explorer::Outcome bad = explorer.explore(make(), kSchedulesMax);
    printf("%-32s %8llu interleavings: %s; planted bug: %s\n", name,
           static_cast<unsigned long long>(good.schedules),
           good.wrong.empty() ? "all good" : good.wrong.c_str(),
           bad.wrong.empty() ? "NOT FOUND"
                             : ("found at " + std::to_string(bad.schedules) + ", " + bad.wrong).c_str());
    return good.wrong.empty() && !bad.wrong.empty();
}

}  // namespace
}  // namespace longshore::explorer

int main() {
    using namespace longshore::explorer;
    bool ok = check("three workers claim a chunk", two_claim);
    ok &= check("claim against recycling", recycle);
    ok &= check("lost claim against successor", lost_claim);
    ok &= check("sleeper and ringer", doorbell);
    ok &= check("last two chunks of a block", completion);
    return ok ? 0 : 1;
}
