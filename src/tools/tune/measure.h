// Measures one collective on so many (emulated) nodes with several contenders, and survives those that fail.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/selection.h"

namespace longshore::tools {

enum class Objective { kLatency, kOverlap };

struct TuneOptions {
    std::string mpi, service;
    std::vector<std::string> settings;  // NAME=VALUE
    unsigned ranks = 0;
    std::vector<unsigned> nodes;
    std::vector<std::string> collectives;
    std::vector<uint64_t> sizes;  // of a block (bcast: of the message)
    int samples = 0;
    Objective objective = Objective::kLatency;
    std::string output, check;
    std::string from_stats, algorithms;
    bool quick = false, sharing = false;
};

// What a contender showed at one size: latency of the blocking and the nonblocking call (the geometric mean
// of both), or the time of post, computing and wait.
struct Sample {
    double us = 0;          // the median of the turns' medians
    double spread = 0;      // their quartile distance over their median
    double self_ratio = 1;  // between its turns of even and of odd number, 1 or more
    size_t medians = 0;
};
using SamplesOfSize = std::map<std::string, Sample>;    // by contender
using Measurement = std::map<uint64_t, SamplesOfSize>;  // by size

// On stderr: a bar on a terminal, else a line for each collective.
class TuneProgress {
  public:
    explicit TuneProgress(size_t total);
    ~TuneProgress();
    void begin(const std::string& what, size_t steps);
    void show(size_t steps_done);  // of those begun
    void end();
    void say(const std::string& line);  // a message for the user

  private:
    bool bar_;
    size_t total_, done_ = 0, steps_ = 0;
    std::string what_;
};

class Tuner {
  public:
    Tuner(const TuneOptions& options, const std::string& flavour, TuneProgress& progress,
          std::string algorithms_file)
        : options_(options),
          flavour_(flavour),
          progress_(progress),
          algorithms_file_(std::move(algorithms_file)) {}

    Measurement measure(Selected collective, unsigned nodes, std::vector<std::string> contenders);
    // As the benchmark describes it; null before the first measurement.
    const nlohmann::json& machine() const { return machine_; }

  private:
    std::optional<std::vector<nlohmann::json>> run(Selected collective, unsigned nodes,
                                                   const std::vector<std::string>& contenders, bool brief,
                                                   std::string* problem);
    std::vector<std::string> those_that_work(Selected collective, unsigned nodes,
                                             const std::vector<std::string>& contenders);
    std::optional<Sample> sample_of(const std::vector<const nlohmann::json*>& rows) const;

    const TuneOptions& options_;
    std::string flavour_;
    TuneProgress& progress_;
    std::string algorithms_file_;  // for the contender "longshore"
    nlohmann::json machine_;
};

// The names under which the benchmark measures a collective for an objective.
std::vector<std::string> bench_names(Selected collective, Objective objective);
// A size of the benchmark as the table of rules counts it.
uint64_t table_bytes(Selected collective, uint64_t size, unsigned ranks);

}  // namespace longshore::tools
