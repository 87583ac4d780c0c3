// What the job's service processes did, as the summary has it.
#pragma once

#include <string>
#include <vector>

#include "host/host.h"

namespace longshore::statistics {

// What came late, of all of them together, by collective.
struct LateCounts {
    ls_late_counts of[LS_COLLECTIVE_COUNT];
    ls_late_counts total() const;
};
LateCounts late_of(const std::vector<ls_service_stats>& services);
void append_late(std::string* out, const LateCounts& late);
void append_service(std::string* out, const ls_service_stats& service);

}  // namespace longshore::statistics
