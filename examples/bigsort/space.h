// Whether there is room for the temporary files.
#pragma once

#include <string>

#include "phases.h"

namespace bigsort {

// Collective over the ranks; before phase 1 with an even share of the values, before phase 2 with what a rank
// really has (`values`), of which `on_disk` values are there already. Returns what is lacking; empty:
// nothing. The same text on all ranks.
std::string lacking_space(const Job& job, std::uint64_t values, std::uint64_t on_disk);

}  // namespace bigsort
