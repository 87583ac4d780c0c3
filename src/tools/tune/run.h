// One launch of the benchmark with several algorithms taking turns, and what it wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longshore::tools {

struct TuneLaunch {
    std::vector<std::string> command;      // mpirun and the benchmark
    std::vector<std::string> environment;  // "NAME=VALUE"
    std::vector<std::string> collectives;  // as the benchmark calls them
    std::vector<std::string> contenders;
    std::vector<uint64_t> sizes;
    int samples = 0, iterations = 0;
    double time_limit_s = 0;  // per collective and size
};

struct TuneResult {
    bool ok = false;
    std::string problem;  // one line
    nlohmann::json machine;
    std::vector<nlohmann::json> rows;
};

// Runs it to its end; after a time that it cannot need it is stopped, which is a failure. `on_row` is called
// with the number of rows so far. A signal that asks this process to end stops it, too: then this throws
// Interrupted (tools/interruption.h).
TuneResult run_launch(const TuneLaunch& launch, const std::function<void(size_t)>& on_row);

// Medians of the turns of a row, of "pure_us" or "overall_us".
std::vector<double> turn_medians(const nlohmann::json& row, const char* key);

}  // namespace longshore::tools
