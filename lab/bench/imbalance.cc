// Ranks that are late by chance, as in an application: an allgather and, at once, an alltoall. What counts is
// the time spent in the two calls beyond waiting for the last rank to enter (paper S0, IV.G and table III,
// whose ranks spend a third less in the offloaded allgather). Delays are the same for both contenders, in us:
// parts of the time that the host MPI's allgather takes when all are on time, measured before. A delay in
// parts of each contender's own time would give the slower one the larger imbalance.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "bench/compute.h"
#include "bench/exchange.h"
#include "bench/lateness.h"
#include "bench/modes.h"
#include "bench/statistics.h"
#include "bench/turns.h"

namespace longshore::bench {

namespace {

constexpr double kAvoidableGoal = 0.65;  // of the host's
constexpr int kRoundsVerified = 4;
constexpr int kOwnTimeShare = 4;  // of the time limit, at most, goes into the host's own time
constexpr std::uint64_t kWarmupIterations = std::uint64_t(1) << 40;  // their delays are nobody else's

// Of one contender. CLOCK_MONOTONIC is one clock for all ranks of a machine, so entries can be compared.
struct ContenderTimes {
    CallTimes allgather, alltoall;     // rank 0
    std::vector<double> entry_spread;  // first to last entry into the allgather; rank 0
    double calls = 0, offloaded = 0;   // sums over the ranks
};

struct Marks {
    std::vector<double> entry, between, end;
};

std::vector<double> over_ranks(const std::vector<double>& mine, MPI_Op op) {
    std::vector<double> all(mine.size());
    PMPI_Allreduce(mine.data(), all.data(), int(mine.size()), MPI_DOUBLE, op, MPI_COMM_WORLD);
    return all;
}

CallTimes mean_of_ranks(const CallTimes& mine) {
    return {mean_over_ranks(mine.total), mean_over_ranks(mine.unavoidable)};
}

class ImbalanceRow {
  public:
    ImbalanceRow(const Session& session, const Collective& allgather, std::size_t bytes)
        : session_(session),
          lateness_(session.options.seed, session.options.late_share),
          delay_(session.options.compute),
          allgather_(allgather, bytes, session.rank, session.ranks, 1, MPI_COMM_WORLD),
          alltoall_(*find_collective("alltoall"), bytes, session.rank, session.ranks, 1, MPI_COMM_WORLD),
          times_(session.contenders.size()) {}

    // False, on all ranks, where a result is wrong.
    bool run() {
        const double start = now_us();
        measure_own_time();
        for (const Contender& contender : session_.contenders)
            if (!verify(contender, 0)) return false;
        iterations_ = iterations_of_turn(session_, times_.size(), [this](std::size_t which) {
            iterate(session_.contenders[which], kWarmupIterations, session_.options.warmup);
        });
        turns_ = take_turns(session_, times_.size(), start, [this](std::size_t which, int turn) {
            take_turn(which, std::uint64_t(turn) * std::uint64_t(iterations_));
        });
        for (ContenderTimes& times : times_) {
            times.calls = sum_over_ranks(times.calls);
            times.offloaded = sum_over_ranks(times.offloaded);
        }
        for (const Contender& contender : session_.contenders)
            if (!verify(contender, 1'000'000)) return false;
        seconds_ = (now_us() - start) / 1e6;
        return true;
    }

    void print() const;
    void write(JsonLines& json) const;
    double seconds() const { return seconds_; }

  private:
    // The host MPI's allgather with every rank on time.
    void measure_own_time() {
        const int warmup = session_.options.warmup;
        const double one = median_allgather(warmup, 1);
        own_us_ = median_allgather(affordable_iterations(session_.options.iterations, one,
                                                         session_.options.time_limit_s, kOwnTimeShare),
                                   0);
    }

    double median_allgather(int iterations, int unused) {
        std::vector<double> mine;
        for (int i = 0; i < iterations + unused; ++i) {
            session_.barrier();
            const double start = now_us();
            allgather_.start(kHostCalls, 0);
            if (i >= unused) mine.push_back(now_us() - start);
        }
        return from_root(median(max_over_ranks(mine)));
    }

    void be_late(double us) {
        if (!(us > 0)) return;
        delay_.prepare(us);
        delay_.run();
    }

    void one_iteration(const Contender& contender, double late_us, Marks& marks) {
        session_.barrier();
        be_late(late_us);
        marks.entry.push_back(now_us());
        allgather_.start(*contender.calls, 0);
        marks.between.push_back(now_us());
        alltoall_.start(*contender.calls, 0);
        marks.end.push_back(now_us());
    }

    Marks iterate(const Contender& contender, std::uint64_t first, int count) {
        Marks marks;
        for (std::uint64_t i = first; i < first + std::uint64_t(count); ++i)
            one_iteration(contender, own_us_ * lateness_.of(i, std::uint32_t(session_.rank)), marks);
        return marks;
    }

    // Both results, with each rank in turn as late as any will be.
    bool verify(const Contender& contender, std::uint64_t first_iteration) {
        std::optional<std::string> wrong;
        Marks unused;
        for (int round = 0; round < kRoundsVerified; ++round) {
            const std::uint64_t iteration = first_iteration + std::uint64_t(round);
            allgather_.fill(0, iteration);
            alltoall_.fill(0, iteration);
            const bool late = round % session_.ranks == session_.rank;
            one_iteration(contender, late ? own_us_ * kLatenessMax : 0, unused);
            if (!wrong) wrong = allgather_.check(0, iteration);
            if (!wrong) wrong = alltoall_.check(0, iteration);
        }
        if (wrong)
            wrong = fmt::format("WRONG RESULT: {} and alltoall of {} bytes by {}: {}",
                                allgather_.collective().name, allgather_.bytes(), contender.name, *wrong);
        return !report_failure(session_, wrong ? wrong->c_str() : nullptr);
    }

    void take_turn(std::size_t which, std::uint64_t first) {
        ContenderTimes& times = times_[which];
        const longshore_counters before = session_.hooks.counters();
        const Marks marks = iterate(session_.contenders[which], first, iterations_);
        times.offloaded += double(session_.hooks.counters().offloaded - before.offloaded);
        times.calls += 2 * iterations_;
        // Nothing of this lies between the calls that are timed.
        const std::vector<double> last_entry = over_ranks(marks.entry, MPI_MAX);
        const std::vector<double> first_entry = over_ranks(marks.entry, MPI_MIN);
        const std::vector<double> last_between = over_ranks(marks.between, MPI_MAX);
        append(times.allgather, mean_of_ranks(split(marks.entry, marks.between, last_entry)));
        append(times.alltoall, mean_of_ranks(split(marks.between, marks.end, last_between)));
        for (std::size_t i = 0; i < last_entry.size(); ++i)
            times.entry_spread.push_back(last_entry[i] - first_entry[i]);
    }

    std::size_t late_entries() const {
        std::size_t late = 0;
        for (int i = 0; i < turns_ * iterations_; ++i)
            for (int rank = 0; rank < session_.ranks; ++rank)
                late += lateness_.of(std::uint64_t(i), std::uint32_t(rank)) > 0;
        return late;
    }

    const ContenderTimes* times_of(bool longshore) const {
        for (std::size_t k = 0; k < times_.size(); ++k)
            if (session_.contenders[k].is_longshore == longshore) return &times_[k];
        return nullptr;
    }

    // Of both calls together, Longshore's in parts of the host's: of everything, and of each turn.
    struct Ratio {
        double all = 0;
        std::vector<double> of_turns;
    };
    std::optional<Ratio> avoidable_ratio() const {
        const ContenderTimes *host = times_of(false), *longshore = times_of(true);
        if (!host || !longshore) return std::nullopt;
        const CallTimes theirs = sum(host->allgather, host->alltoall);
        const CallTimes ours = sum(longshore->allgather, longshore->alltoall);
        return Ratio{ratio(mean(ours).avoidable(), mean(theirs).avoidable()),
                     avoidable_ratios(ours, theirs, std::size_t(iterations_))};
    }

    void print_function(const char* name, CallTimes (*pick)(const ContenderTimes&)) const;

    const Session& session_;
    Lateness lateness_;
    Computation delay_;
    Exchange allgather_, alltoall_;
    std::vector<ContenderTimes> times_;
    double own_us_ = 0, seconds_ = 0;
    int iterations_ = 0, turns_ = 0;
};

void ImbalanceRow::print_function(const char* name, CallTimes (*pick)(const ContenderTimes&)) const {
    fmt::print("{:<16}", name);
    for (const ContenderTimes& times : times_) {
        const CallMean all = mean(pick(times));
        fmt::print(" {:>10.1f} {:>11.1f} {:>10.1f}", all.total, all.unavoidable, all.avoidable());
    }
    const ContenderTimes *host = times_of(false), *longshore = times_of(true);
    if (host && longshore)
        fmt::print(" {:>7.2f}x", ratio(mean(pick(*longshore)).avoidable(), mean(pick(*host)).avoidable()));
    fmt::print("\n");
}

void ImbalanceRow::print() const {
    const char* allgather = allgather_.collective().name;
    const std::size_t entries = std::size_t(turns_) * std::size_t(iterations_) * std::size_t(session_.ranks);
    const std::size_t late = late_entries();
    fmt::print("\n# {0} of {1}, then at once alltoall of {1} per pair, {2} ranks\n", allgather,
               show_size(allgather_.bytes()), session_.ranks);
    fmt::print(
        "# {} of {} entries ({:.1f} %) late by {:.0f} to {:.0f} % of {:.1f} us, the host's {} on time; seed "
        "{}\n",
        late, entries, 100 * ratio(double(late), double(entries)), 100 * kLatenessMin, 100 * kLatenessMax,
        own_us_, allgather, session_.options.seed);
    fmt::print(
        "# us per rank and iteration, means of {} turns of {}; unavoidable: waiting for the last to enter\n",
        turns_, iterations_);
    fmt::print("{:<16}", "");
    for (const Contender& contender : session_.contenders) fmt::print(" {:>33}", contender.name);
    fmt::print("\n{:<16}", "function");
    for (std::size_t k = 0; k < times_.size(); ++k)
        fmt::print(" {:>10} {:>11} {:>10}", "total", "unavoidable", "avoidable");
    fmt::print("{}\n", times_.size() > 1 ? "  vs host" : "");
    print_function("all MPI", [](const ContenderTimes& t) { return sum(t.allgather, t.alltoall); });
    print_function(allgather, [](const ContenderTimes& t) { return t.allgather; });
    print_function("alltoall", [](const ContenderTimes& t) { return t.alltoall; });
    fmt::print("first to last entry, median:");
    for (std::size_t k = 0; k < times_.size(); ++k)
        fmt::print(" {} {:.1f} us", session_.contenders[k].name, median(times_[k].entry_spread));
    fmt::print("\n");
    if (const ContenderTimes* longshore = times_of(true);
        longshore && longshore->offloaded < longshore->calls)
        fmt::print("left to MPI: {:.0f} of {:.0f} calls\n", longshore->calls - longshore->offloaded,
                   longshore->calls);
    if (const std::optional<Ratio> avoidable = avoidable_ratio()) {
        const Summary turns = summarize(avoidable->of_turns);
        fmt::print(
            "avoidable, both calls: {:.2f} x host's (of turns: median {:.2f}, {:.2f} to {:.2f}); "
            "goal: at most {:.2f}, {}\n",
            avoidable->all, turns.median, turns.min, turns.max, kAvoidableGoal,
            std::max(avoidable->all, turns.median) <= kAvoidableGoal ? "met" : "missed");
    }
    std::fflush(stdout);
}

void ImbalanceRow::write(JsonLines& json) const {
    for (std::size_t k = 0; k < times_.size(); ++k) {
        const Contender& contender = session_.contenders[k];
        const ContenderTimes& times = times_[k];
        nlohmann::json object = {{"type", "imbalance"},
                                 {"collective", allgather_.collective().name},
                                 {"bytes", allgather_.bytes()},
                                 {"contender", contender.name},
                                 {"seed", session_.options.seed},
                                 {"late_share", session_.options.late_share},
                                 {"delay", to_string(session_.options.compute)},
                                 {"late_entries", late_entries()},
                                 {"iterations_per_turn", iterations_},
                                 {"turns", turns_},
                                 {"host_allgather_us", own_us_},
                                 {"entry_spread_us", times.entry_spread},
                                 {"allgather_us", times.allgather.total},
                                 {"allgather_unavoidable_us", times.allgather.unavoidable},
                                 {"alltoall_us", times.alltoall.total},
                                 {"alltoall_unavoidable_us", times.alltoall.unavoidable}};
        if (contender.is_longshore) {
            object["cooperative"] = session_.options.cooperative;
            object["offloaded_share_of_calls"] = ratio(times.offloaded, times.calls);
            if (const std::optional<Ratio> avoidable = avoidable_ratio()) {
                object["avoidable_vs_host"] = avoidable->all;
                object["avoidable_vs_host_of_turns"] = avoidable->of_turns;
                object["goal"] = kAvoidableGoal;
            }
        }
        json.write(object);
    }
}

}  // namespace

int run_imbalance(Session& session, bool has_one_clock, JsonLines& json) {
    if (!has_one_clock || session.ranks < 2) {
        if (session.root())
            fmt::print(
                stderr,
                "longshore-bench: --imbalance needs at least two ranks, all on one machine: clocks of two "
                "machines are not comparable\n");
        return 2;
    }
    const Options& options = session.options;
    Progress progress(session.root() ? options.progress : ProgressStyle::kNone,
                      int(options.collectives.size() * options.sizes.size()));
    for (const std::string& name : options.collectives)
        for (std::size_t bytes : options.sizes) {
            progress.start_row(fmt::format("{} {}", name, show_size(bytes)));
            if (!Exchange::fits(bytes, session.ranks)) {
                if (session.root())
                    fmt::print("\n{} left out: the receive buffer passes MPI's int displacements\n",
                               show_size(bytes));
                progress.end_row(0);
                continue;
            }
            ImbalanceRow row(session, *find_collective(name), bytes);
            if (!row.run()) return 1;
            progress.end_row(row.seconds());
            if (!session.root()) continue;
            row.print();
            row.write(json);
        }
    return 0;
}

}  // namespace longshore::bench
