// Many worlds: forked workers (a failed check ends a worker, not the campaign), floors of coverage, failing
// seeds.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/options.h"

namespace longshore::sim {

struct CampaignOptions {
    uint64_t first = 1, count = 1000;
    uint32_t jobs = 1;
    uint32_t stop_after = 10;       // failing seeds
    uint32_t twice_per_mille = 20;  // how many worlds are run twice, to the same hash
    bool floors = true;
    Worlds worlds = Worlds::kAsDrawn;
    std::string replay = "longshore-sim";  // how this program was called
};

// 0, or 1: some seed failed or a floor was not reached.
int run_campaign(const CampaignOptions& options);
int run_one(uint64_t seed, uint32_t version, Worlds worlds, bool verbose);
// One world of 1,024 ranks; limits on the time it spends on a core, and on memory.
int run_large(double seconds_max, uint64_t rss_bytes_max);

}  // namespace longshore::sim
