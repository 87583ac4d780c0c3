// The first use of a buffer: allocated, touched by the program, never given to a collective before, freed
// afterwards. Whatever a library does once for a buffer is paid here every time. Beside it the same exchange
// over buffers that are used again and again, in the same turns.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "bench/modes.h"
#include "bench/protocol.h"
#include "bench/statistics.h"
#include "bench/turns.h"

namespace longshore::bench {

namespace {

enum class Use { kReused, kFirst };
constexpr Use kUses[] = {Use::kReused, Use::kFirst};

const char* to_string(Use use) {
    return use == Use::kReused ? "reused" : "first use";
}

// An entry per iteration, the maximum over the ranks; rank 0.
struct UseTimes {
    std::vector<double> reused, first;
    std::vector<double>& of(Use use) { return use == Use::kReused ? reused : first; }
    const std::vector<double>& of(Use use) const { return use == Use::kReused ? reused : first; }
};

class FirstUseRow {
  public:
    FirstUseRow(Session& session, const Collective& collective, std::size_t bytes)
        : session_(session),
          buffers_(session, collective, bytes),
          contenders_(session.contenders_for(collective)),
          times_(contenders_.size()) {}

    // False, on all ranks, where a result is wrong.
    bool run() {
        const double start = now_us();
        if (!verify_all(0)) return false;
        const auto warm_up = [this](std::size_t which) {
            session_.use(contenders_[which], buffers_.own().collective());
            for (int i = 0; i < session_.options.warmup; ++i) one_iteration(contenders_[which], Use::kFirst);
        };
        iterations_ = iterations_of_turn(session_, contenders_.size(), warm_up, int(std::size(kUses)));
        take_turns(session_, contenders_.size(), start, [this](std::size_t which, int) {
            for (const Use use : kUses) take_turn(which, use);
        });
        if (!verify_all(1'000'000)) return false;
        seconds_ = (now_us() - start) / 1e6;
        return true;
    }

    void print() const;
    void write(JsonLines& json) const;
    double seconds() const { return seconds_; }

  private:
    bool verify_all(std::uint64_t first_iteration) {
        for (const Contender& contender : contenders_)
            for (const Use use : kUses)
                if (!verify(session_, buffers_.of(contender), contender, first_iteration, use == Use::kFirst))
                    return false;
        return true;
    }

    double one_iteration(const Contender& contender, Use use) {
        Exchange& exchange = buffers_.of(contender);
        const int buffer = next_buffer_++ % exchange.buffers();
        if (use == Use::kFirst) exchange.renew(buffer);
        session_.barrier();
        const double start = now_us();
        exchange.run(*contender.calls, buffer);
        return now_us() - start;
    }

    void take_turn(std::size_t which, Use use) {
        const Contender& contender = contenders_[which];
        session_.use(contender, buffers_.own().collective());
        // Those of the turn before were fresh.
        for (int i = 0; use == Use::kReused && i < buffers_.own().buffers(); ++i)
            one_iteration(contender, use);
        std::vector<double> mine;
        for (int i = 0; i < iterations_; ++i) mine.push_back(one_iteration(contender, use));
        const std::vector<double> slowest = max_over_ranks(mine);
        std::vector<double>& times = times_[which].of(use);
        times.insert(times.end(), slowest.begin(), slowest.end());
    }

    // By the median of the contender that is wanted; 0 where there is none.
    template <class Wanted>
    double against(const Wanted& wanted, std::size_t which, Use use) const {
        for (std::size_t i = 0; i < contenders_.size(); ++i)
            if (wanted(contenders_[i]))
                return i == which ? 0 : ratio(median(times_[which].of(use)), median(times_[i].of(use)));
        return 0;
    }
    double against_host(std::size_t which, Use use) const {
        if (!contenders_[which].is_longshore) return 0;
        return against([](const Contender& one) { return !one.is_longshore && !one.is_limit; }, which, use);
    }
    double against_limit(std::size_t which, Use use) const {
        return against([](const Contender& one) { return one.is_limit; }, which, use);
    }
    double against_reused(std::size_t which) const {
        return ratio(median(times_[which].first), median(times_[which].reused));
    }

    Session& session_;
    Buffers buffers_;
    const std::vector<Contender> contenders_;
    std::vector<UseTimes> times_;
    int iterations_ = 0, next_buffer_ = 0;
    double seconds_ = 0;
};

std::string times_or_dash(double value) {
    return value > 0 ? fmt::format("{:.2f}x", value) : kNotTaken;
}

void FirstUseRow::print() const {
    for (std::size_t i = 0; i < contenders_.size(); ++i)
        for (const Use use : kUses) {
            const Summary times = summarize(times_[i].of(use));
            fmt::print("{:>6} {:<{}} {:<9} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>8} {:>8} {:>9}\n",
                       show_size(buffers_.own().bytes()), contenders_[i].name, name_width(session_.options),
                       to_string(use), times.min, times.median, times.p99, times.max,
                       times_or_dash(against_host(i, use)), times_or_dash(against_limit(i, use)),
                       use == Use::kFirst ? times_or_dash(against_reused(i)) : kNotTaken);
        }
    std::fflush(stdout);
}

void FirstUseRow::write(JsonLines& json) const {
    for (std::size_t i = 0; i < contenders_.size(); ++i)
        for (const Use use : kUses)
            json.write({{"type", "first-use"},
                        {"collective", buffers_.own().collective().name},
                        {"bytes", buffers_.own().bytes()},
                        {"contender", contenders_[i].name},
                        {"use", to_string(use)},
                        {"iterations_per_turn", iterations_},
                        {"buffers", session_.options.buffers},
                        {"pure_us", times_[i].of(use)},
                        {"pure_median_us", median(times_[i].of(use))},
                        {"vs_host", against_host(i, use)},
                        {"vs_limit", against_limit(i, use)},
                        {"vs_reused", use == Use::kFirst ? against_reused(i) : 1}});
}

void print_first_use_header(const Session& session, const Collective& collective) {
    fmt::print(
        "\n# {}, {} ranks, buffers used again and for the first time; times in us, over iterations, maximum "
        "of "
        "ranks\n",
        collective.name, session.ranks);
    fmt::print("{:>6} {:<{}} {:<9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9}\n", "bytes", "contender",
               name_width(session.options), "buffers", "min", "median", "p99", "max", "vs host", "vs limit",
               "vs reused");
    std::fflush(stdout);
}

}  // namespace

int run_first_use(Session& session, JsonLines& json) {
    keep_heap_settings();
    const Options& options = session.options;
    Progress progress(session.root() ? options.progress : ProgressStyle::kNone,
                      int(options.collectives.size() * options.sizes.size()));
    for (const std::string& name : options.collectives) {
        const Collective& collective = *find_collective(name);
        if (session.root()) print_first_use_header(session, collective);
        for (std::size_t bytes : options.sizes) {
            progress.start_row(fmt::format("{} {}", name, show_size(bytes)));
            double seconds = 0;
            if (Exchange::fits(bytes, session.ranks) && !session.contenders_for(collective).empty()) {
                FirstUseRow row(session, collective, bytes);
                if (!row.run()) return 1;
                seconds = row.seconds();
                progress.clear();
                if (session.root()) {
                    row.print();
                    row.write(json);
                }
            } else if (session.root()) {
                fmt::print("{:>6} left out: too large for MPI's int displacements, or no contender has it\n",
                           show_size(bytes));
            }
            progress.end_row(seconds);
        }
    }
    return 0;
}

}  // namespace longshore::bench
