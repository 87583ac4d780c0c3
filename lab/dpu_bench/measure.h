// One row of the benchmark: a pattern, an assignment and a size, verified and then timed.
#pragma once

#include <optional>
#include <vector>

#include "dpu_bench/efficiency.h"
#include "dpu_bench/options.h"
#include "dpu_bench/ranks.h"

namespace longshore::dpu_bench {

struct Row {
    Pattern pattern;
    Assignment assignment;
    std::size_t bytes = 0;
    std::vector<Times> runs;
    int iterations = 0;  // of the staged loop, in the run that had the fewest
};

struct Session {
    const Options& options;
    const Ranks& ranks;
    Mover& mover;
    Compute compute;  // not kAuto
    std::optional<std::size_t> spoilt_byte =
        {};  // for tests: the last host changes this byte of what it received
};

// Collective. Nothing if the data were wrong; the reason is printed.
std::optional<Row> measure(const Session& session, Pattern pattern, Assignment assignment, std::size_t bytes);

}  // namespace longshore::dpu_bench
