// One line on the terminal that is overwritten: what runs, how much of all is done, and the time that is
// left.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "model/job.h"

namespace longshore::tools {

class ProgressBar final : public timed::Watcher {
  public:
    // How long each of the runs is expected to take beside the others.
    explicit ProgressBar(std::vector<double> seconds);
    void begin(size_t number, const std::string& label);
    void on_progress(double part) override;
    void clear() const;

  private:
    const std::vector<double> seconds_;
    const double all_;
    const bool shown_;
    size_t number_ = 0;
    double before_ = 0;  // of the runs before this one
    std::string label_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace longshore::tools
