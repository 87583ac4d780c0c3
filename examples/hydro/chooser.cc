#include "chooser.h"

#include <fmt/format.h>

#include <algorithm>

namespace {

constexpr int kBlock = 3;          // cycles in a row; the first of them is not counted
constexpr int kRounds = 5;         // blocks of each way in a trial
constexpr double kWorthIt = 0.99;  // of the cycle with nothing handed over

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
    return values[values.size() / 2];
}

std::string names_of(unsigned kernels) {
    std::string names;
    for (int kernel = 0; kernel < kKernels; ++kernel)
        if (kernels >> kernel & 1)
            names += (names.empty() ? "" : ", ") + std::string(kKernelTable[kernel].name);
    return names.empty() ? "nothing" : names;
}

}  // namespace

Chooser::Chooser(unsigned kernels, MPI_Comm comm, Side& side) : comm_(comm), side_(side), tried_(kernels) {}

void Chooser::after_cycle(Hydro& hydro, double seconds) {
    if (decided_) return;
    const bool is_handed = cycle_ / kBlock % 2 == 1;
    if (cycle_ % kBlock != 0) {
        Way& way = is_handed ? handed_ : plain_;
        way.cycles.push_back(seconds);
        for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
            const KernelTimes& times = hydro.times()[kernel];
            way.cost[kernel].push_back(times.submit + times.wait);
            way.slack[kernel].push_back(times.slack);
        }
    }
    if (++cycle_ == 2 * kBlock * kRounds) {
        decide(hydro);
        return;
    }
    const bool hands_over = cycle_ / kBlock % 2 == 1;
    if (is_handed && !hands_over) side_.rest();
    hydro.hand_over(hands_over ? tried_ : 0);
}

double Chooser::median_of_ranks(const std::vector<double>& values, MPI_Op op) const {
    double value = median(values);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, comm_);
    return value;
}

void Chooser::decide(Hydro& hydro) {
    // Collective calls, so all ranks come to the same end.
    const double plain = median_of_ranks(plain_.cycles, MPI_MAX),
                 handed = median_of_ranks(handed_.cycles, MPI_MAX);
    const unsigned tried = tried_;
    if (first_trial_) {
        keep_covered();
    } else {
        reasons_.push_back(fmt::format("{}: a cycle takes {:.3f} ms, with nothing handed over {:.3f} ms",
                                       names_of(tried), 1e3 * handed, 1e3 * plain));
        if (handed <= kWorthIt * plain) return conclude(hydro, tried);
        drop_least_gain();
    }
    first_trial_ = false;
    if (tried_ == 0) return conclude(hydro, 0);
    plain_ = handed_ = {};
    cycle_ = 0;
    side_.rest();
    hydro.hand_over(0);
}

void Chooser::keep_covered() {
    for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
        if (!(tried_ >> kernel & 1)) continue;
        const double own = median_of_ranks(plain_.cost[kernel], MPI_MIN);
        const double cost = median_of_ranks(handed_.cost[kernel], MPI_MAX);
        const double slack = median_of_ranks(handed_.slack[kernel], MPI_MIN);
        gain_[kernel] = own - cost;
        const bool keeps = cost < own;
        if (!keeps) tried_ &= ~(1U << kernel);
        reasons_.push_back(
            fmt::format("{}: own computing {:.3f} ms, handed over {:.3f} ms in submitting and waiting, slack "
                        "{:.3f} ms: {}",
                        kKernelTable[kernel].name, 1e3 * own, 1e3 * cost, 1e3 * slack,
                        keeps ? "tried" : "not handed over"));
    }
}

void Chooser::drop_least_gain() {
    int least = -1;
    for (int kernel = 0; kernel < kKernels; ++kernel)
        if ((tried_ >> kernel & 1) && (least < 0 || gain_[std::size_t(kernel)] < gain_[std::size_t(least)]))
            least = kernel;
    tried_ &= ~(1U << least);
}

void Chooser::conclude(Hydro& hydro, unsigned kernels) {
    chosen_ = kernels;
    decided_ = true;
    reasons_.push_back(fmt::format("handed over: {}", names_of(kernels)));
    hydro.hand_over(kernels);
    if (kernels == 0) side_.rest();
}
