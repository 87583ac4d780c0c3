// longshore tune --check: compares a table with every algorithm forced. And what it shares with tuning.
#pragma once

#include <string>
#include <vector>

#include "base/selection.h"
#include "tools/tune/measure.h"

namespace longshore::tools {

// The algorithms that can be forced on a collective, by their names.
std::vector<std::string> contenders_of(Selected collective);
// How many measurements that is, with `further` contenders besides the algorithms of each collective.
size_t steps_of(const TuneOptions& options, const std::vector<Selected>& collectives, size_t further);
// An exit code.
int check_table(const TuneOptions& options, const std::string& flavour,
                const std::vector<Selected>& collectives);

}  // namespace longshore::tools
