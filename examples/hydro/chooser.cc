#include "chooser.h"

#include <fmt/format.h>

#include <algorithm>

namespace {

constexpr int kBlock = 3;               // cycles in a row; the first of them is not counted
constexpr int kAloneBlocks = 2;         // with nothing handed over, at the beginning
constexpr std::size_t kOwnCycles = 60;  // so many tell what a cycle with nothing handed over takes
constexpr int kRounds = 5;              // blocks of each way in a comparison
constexpr int kRoundsMin = 2;           // ... after which one that is clearly longer is over
constexpr double kWorthIt = 0.99;       // of the cycle with nothing handed over
constexpr double kClearly = 1.05;       // likewise
constexpr double kSpentMax = 0.02;      // of the run so far

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
    return values[values.size() / 2];
}

double least(const std::vector<double>& values) {
    return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
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
    run_ += seconds;
    was_trying_ = doing_ != Doing::kPause && doing_ != Doing::kDecided;
    if (is_decided()) return;
    const bool is_handed = doing_ == Doing::kProbe || doing_ == Doing::kHanded;
    count(seconds, is_handed);
    if (was_trying_) ++cycles_tried_;
    if (was_trying_ && cycle_ != 0) {
        Way& way = is_handed ? handed_ : plain_;
        way.cycles.push_back(seconds);
        for (std::size_t kernel = 0; kernel < kKernels; ++kernel) {
            const KernelTimes& times = hydro.times()[kernel];
            way.cost[kernel].push_back(times.submit + times.wait);
            way.window[kernel].push_back(times.window);
        }
    }
    const int block = doing_ == Doing::kAlone ? kBlock * kAloneBlocks : kBlock;
    if (++cycle_ == block) end_block(hydro);
}

// The first cycle of a block may still wait for what the one before has handed over.
void Chooser::count(double seconds, bool is_handed) {
    if (is_handed || (cycle_ == 0 && !own_cycles_.empty())) {
        handed_seconds_ += seconds;
        ++handed_cycles_;
    } else if (cycle_ != 0) {
        if (own_cycles_.size() == kOwnCycles) own_cycles_.erase(own_cycles_.begin());
        own_cycles_.push_back(seconds);
        own_cycle_ = median(own_cycles_);
    }
}

double Chooser::agreed(double value, MPI_Op op) const {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, comm_);
    return value;
}

// Of all ranks, so that they come to the same end.
bool Chooser::affords_more() const {
    return agreed(seconds_spent(), MPI_MAX) <= kSpentMax * agreed(run_, MPI_MIN);
}

void Chooser::begin(Hydro& hydro, Doing doing) {
    const bool hands_over = doing == Doing::kProbe || doing == Doing::kHanded;
    const bool waits = hands_over && !affords_more();
    if (waits) wanted_ = doing;
    doing_ = waits ? Doing::kPause : doing;
    cycle_ = 0;
    const unsigned kernels = waits || !hands_over      ? 0
                             : doing == Doing::kHanded ? tried_
                                                       : 1U << to_probe_.back();
    if (hydro.handed_over() != 0 && kernels == 0) side_.rest();
    hydro.hand_over(kernels);
}

void Chooser::end_block(Hydro& hydro) {
    switch (doing_) {
        case Doing::kAlone:
            learn_own(hydro);
            return probe_next(hydro);
        case Doing::kProbe:
            judge_probe();
            to_probe_.pop_back();
            return probe_next(hydro);
        case Doing::kPause:
            return begin(hydro, wanted_);
        case Doing::kPlain:
            return begin(hydro, Doing::kHanded);
        case Doing::kHanded:
            return compare(hydro);
        case Doing::kDecided:
            return;
    }
}

void Chooser::learn_own(const Hydro& hydro) {
    for (int kernel = kKernels - 1; kernel >= 0; --kernel) {
        const std::size_t at = std::size_t(kernel);
        own_[at] = agreed(median(plain_.cost[at]), MPI_MIN);
        window_[at] = agreed(median(plain_.window[at]), MPI_MIN);
        bytes_[at] = agreed(double(hydro.bytes_handed(KernelId(kernel))), MPI_MAX);
        if (tried_ >> kernel & 1) to_probe_.push_back(kernel);
    }
    std::stable_sort(to_probe_.begin(), to_probe_.end(),
                     [&](int a, int b) { return bytes_[std::size_t(a)] > bytes_[std::size_t(b)]; });
    plain_ = {};
}

// Those whose bytes alone take too long are passed over.
void Chooser::probe_next(Hydro& hydro) {
    handed_ = {};
    for (; !to_probe_.empty(); to_probe_.pop_back()) {
        const std::size_t kernel = std::size_t(to_probe_.back());
        const double wait = bytes_[kernel] * seconds_per_byte_ - window_[kernel];
        if (seconds_per_byte_ == 0 || wait < own_[kernel]) return begin(hydro, Doing::kProbe);
        tried_ &= ~(1U << kernel);
        reasons_.push_back(
            fmt::format("{}: its {:.3f} MB would take {:.3f} ms, {:.3f} ms more than there is time "
                        "for, and own computing takes {:.3f} ms: not tried",
                        kKernelTable[kernel].name, 1e-6 * bytes_[kernel],
                        1e3 * bytes_[kernel] * seconds_per_byte_, 1e3 * wait, 1e3 * own_[kernel]));
    }
    if (tried_ == 0) return conclude(hydro, 0);
    begin(hydro, Doing::kPlain);
}

// By its best cycle: whether it keeps that up the comparison shows. What was waited for long says how long a
// byte takes.
void Chooser::judge_probe() {
    const std::size_t kernel = std::size_t(to_probe_.back());
    const double cost = agreed(least(handed_.cost[kernel]), MPI_MAX);
    gain_[kernel] = own_[kernel] - cost;
    const bool keeps = cost < own_[kernel];
    if (!keeps) {
        tried_ &= ~(1U << kernel);
        const double taken = cost + agreed(least(handed_.window[kernel]), MPI_MIN) - own_[kernel];
        if (bytes_[kernel] > 0) seconds_per_byte_ = std::max(seconds_per_byte_, taken / bytes_[kernel]);
    }
    reasons_.push_back(fmt::format(
        "{}: own computing {:.3f} ms, handed over {:.3f} ms in submitting and waiting, {:.3f} ms until its "
        "first use: {}",
        kKernelTable[kernel].name, 1e3 * own_[kernel], 1e3 * cost, 1e3 * window_[kernel],
        keeps ? "tried" : "not handed over"));
}

void Chooser::compare(Hydro& hydro) {
    ++rounds_;
    const double plain = agreed(median(plain_.cycles), MPI_MAX);
    const double handed = agreed(median(handed_.cycles), MPI_MAX);
    const bool is_over = rounds_ == kRounds || (rounds_ >= kRoundsMin && handed > kClearly * plain);
    if (!is_over) return begin(hydro, Doing::kPlain);
    reasons_.push_back(fmt::format("{}: a cycle takes {:.3f} ms, with nothing handed over {:.3f} ms",
                                   names_of(tried_), 1e3 * handed, 1e3 * plain));
    if (handed <= kWorthIt * plain) return conclude(hydro, tried_);
    drop_least_gain();
    if (tried_ == 0) return conclude(hydro, 0);
    plain_ = handed_ = {};
    rounds_ = 0;
    begin(hydro, Doing::kPlain);
}

void Chooser::drop_least_gain() {
    int worst = -1;
    for (int kernel = 0; kernel < kKernels; ++kernel)
        if ((tried_ >> kernel & 1) && (worst < 0 || gain_[std::size_t(kernel)] < gain_[std::size_t(worst)]))
            worst = kernel;
    tried_ &= ~(1U << worst);
}

void Chooser::conclude(Hydro& hydro, unsigned kernels) {
    chosen_ = kernels;
    doing_ = Doing::kDecided;
    reasons_.push_back(fmt::format("handed over: {}", names_of(kernels)));
    hydro.hand_over(kernels);
    if (kernels == 0) side_.rest();
}
