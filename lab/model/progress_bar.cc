#include "model/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace longshore::tools {

namespace {
constexpr int kWidth = 30;
}

ProgressBar::ProgressBar(std::vector<double> seconds)
    : seconds_(std::move(seconds)),
      all_(std::max(1e-9, std::accumulate(seconds_.begin(), seconds_.end(), 0.0))),
      shown_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::begin(size_t number, const std::string& label) {
    number_ = number;
    label_ = label;
    before_ = std::accumulate(seconds_.begin(), seconds_.begin() + static_cast<ptrdiff_t>(number), 0.0);
    on_progress(0);
}

void ProgressBar::on_progress(double part) {
    if (!shown_) return;
    const double done = std::min(1.0, (before_ + seconds_[number_] * part) / all_);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    const int filled = static_cast<int>(kWidth * done);
    const std::string left =
        done > 0.02 ? fmt::format("{:.0f} s left", seconds * (1 - done) / done) : std::string("...");
    fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {}: {}", "", filled, "", kWidth - filled, left, label_);
    fflush(stderr);
}

void ProgressBar::clear() const {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace longshore::tools
