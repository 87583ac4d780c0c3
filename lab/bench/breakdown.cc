// Where the time of an operation goes, by the clock of its ranks and of whoever moved its blocks
// (longshore.h, longshore_times). All on one machine, so on one clock. Of each iteration the rank counts
// whose call took longest: the operation took as long as that.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/text.h"
#include "bench/modes.h"
#include "bench/protocol.h"
#include "bench/stages.h"
#include "bench/statistics.h"
#include "bench/turns.h"

namespace longshore::bench {

namespace {

// One rank's view of one iteration, in us; what ranks send each other.
struct View {
    Stages stages{};
    double by_ranks = 0, by_services = 0;  // in copies of the blocks that came to it, added up
    double offloaded = 0;
};
constexpr int kViewDoubles = sizeof(View) / sizeof(double);

struct Call {
    std::uint64_t begin = 0, end = 0;
    longshore_times times{};
};

// Of one contender; rank 0.
struct Breakdown {
    Contender contender{};
    std::array<std::vector<double>, kStageNames.size()> stages;
    std::vector<double> total, by_ranks, by_services;
    bool offloaded = true;

    void add(const View& view) {
        total.push_back(longshore::bench::total(view.stages));
        offloaded = offloaded && view.offloaded != 0;
        if (view.offloaded == 0) return;  // by the MPI, whose stages nobody notes
        for (std::size_t i = 0; i < stages.size(); ++i) stages[i].push_back(view.stages[i]);
        by_ranks.push_back(view.by_ranks);
        by_services.push_back(view.by_services);
    }
};

std::uint64_t now_ns() {
    return std::uint64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

double us_after(std::uint64_t begin, std::uint64_t ns) {
    return ns == 0 ? -1 : (double(ns) - double(begin)) / 1e3;
}

class BreakdownRow {
  public:
    BreakdownRow(const Session& session, const Collective& collective, std::size_t bytes)
        : session_(session),
          exchange_(collective, bytes, session.rank, session.ranks, session.options.buffers, MPI_COMM_WORLD) {
        for (const Contender& contender : session.contenders_for(collective))
            if (contender.is_longshore) results_.emplace_back().contender = contender;
    }

    // False, on all ranks, where a result is wrong.
    bool run() {
        const double start = now_us();
        for (const Breakdown& result : results_)
            if (!verify(session_, exchange_, result.contender, 0)) return false;
        iterations_ = iterations_of_turn(session_, results_.size(), [this](std::size_t which) {
            const Contender& contender = results_[which].contender;
            session_.use(contender, exchange_.collective());
            for (int i = 0; i < session_.options.warmup; ++i) one_iteration(contender);
        });
        take_turns(session_, results_.size(), start,
                   [this](std::size_t which, int) { take_turn(results_[which]); });
        seconds_ = (now_us() - start) / 1e6;
        return true;
    }

    void print() const;
    void write(JsonLines& json) const;
    double seconds() const { return seconds_; }

  private:
    Call one_iteration(const Contender& contender) {
        Call call;
        const int buffer = next_buffer_++ % exchange_.buffers();
        session_.barrier();
        call.begin = now_ns();
        exchange_.run(*contender.calls, buffer);
        call.end = now_ns();
        call.times = session_.hooks.times();
        return call;
    }

    // Nothing that the ranks say to each other lies between the calls.
    void take_turn(Breakdown& result) {
        session_.use(result.contender, exchange_.collective());
        std::vector<Call> calls;
        for (int i = 0; i < iterations_; ++i) calls.push_back(one_iteration(result.contender));
        const std::vector<std::uint64_t> published = published_by_all(calls);
        std::vector<View> mine;
        for (int i = 0; i < iterations_; ++i)
            mine.push_back(view_of(calls[std::size_t(i)], last_peer(published, i)));
        std::vector<View> all(mine.size() * std::size_t(session_.ranks));
        PMPI_Gather(mine.data(), kViewDoubles * iterations_, MPI_DOUBLE, all.data(),
                    kViewDoubles * iterations_, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int i = 0; session_.root() && i < iterations_; ++i) result.add(one_of(all, i));
    }

    // By rank, then by iteration.
    std::vector<std::uint64_t> published_by_all(const std::vector<Call>& calls) const {
        std::vector<std::uint64_t> mine;
        for (const Call& call : calls) mine.push_back(call.times.published_ns);
        std::vector<std::uint64_t> all(mine.size() * std::size_t(session_.ranks));
        PMPI_Allgather(mine.data(), iterations_, MPI_UINT64_T, all.data(), iterations_, MPI_UINT64_T,
                       MPI_COMM_WORLD);
        return all;
    }

    // With a root the others exchange blocks with that only.
    std::uint64_t last_peer(const std::vector<std::uint64_t>& published, int iteration) const {
        const int peers = has_root(exchange_.collective().pattern) && session_.rank != 0 ? 1 : session_.ranks;
        std::uint64_t last = 0;
        for (int peer = 0; peer < peers; ++peer)
            last = std::max(last, published[std::size_t(peer * iterations_ + iteration)]);
        return last;
    }

    static View view_of(const Call& call, std::uint64_t last_peer) {
        const auto us = [&](std::uint64_t ns) { return us_after(call.begin, ns); };
        const longshore_times& times = call.times;
        return {stages_of({us(times.published_ns), us(last_peer), us(times.first_copy_ns),
                           us(times.landed_ns), us(times.read_ns), us(call.end)}),
                double(times.copies_by_ranks_ns) / 1e3, double(times.copies_by_services_ns) / 1e3,
                times.published_ns >= call.begin ? 1.0 : 0.0};
    }

    // The stages of the rank whose call took longest; copies of the one where they did.
    View one_of(const std::vector<View>& all, int iteration) const {
        std::vector<Stages> stages;
        View view;
        view.offloaded = 1;
        for (int rank = 0; rank < session_.ranks; ++rank) {
            const View& theirs = all[std::size_t(rank * iterations_ + iteration)];
            stages.push_back(theirs.stages);
            view.by_ranks = std::max(view.by_ranks, theirs.by_ranks);
            view.by_services = std::max(view.by_services, theirs.by_services);
            view.offloaded = std::min(view.offloaded, theirs.offloaded);
        }
        view.stages = stages[slowest(stages)];
        return view;
    }

    const Session& session_;
    Exchange exchange_;
    std::vector<Breakdown> results_;
    int iterations_ = 0, next_buffer_ = 0;
    double seconds_ = 0;
};

// Lines of at most 80 columns: in five characters up to 100 ms.
std::string brief_median(const std::vector<double>& samples) {
    if (samples.empty()) return kNotTaken;
    const double us = median(samples);
    return fmt::format("{:.{}f}", us, us < 99.995 ? 2 : us < 999.95 ? 1 : 0);
}

std::size_t stage_width(std::size_t stage) {
    return std::max<std::size_t>(5, std::strlen(kStageNames[stage]));
}

void BreakdownRow::print() const {
    for (const Breakdown& result : results_) {
        fmt::print("{:>5} {:<{}} {:>6}", show_size(exchange_.bytes()), result.contender.name,
                   name_width(session_.options), brief_median(result.total));
        if (!result.offloaded) {
            fmt::print("  left to MPI\n");
            continue;
        }
        for (std::size_t i = 0; i < kStageNames.size(); ++i)
            fmt::print(" {:>{}}", brief_median(result.stages[i]), stage_width(i));
        fmt::print(" {:>6} {:>6}\n", brief_median(result.by_ranks), brief_median(result.by_services));
    }
    std::fflush(stdout);
}

void BreakdownRow::write(JsonLines& json) const {
    for (const Breakdown& result : results_) {
        nlohmann::json medians, samples;
        for (std::size_t i = 0; i < kStageNames.size(); ++i) {
            medians[kStageNames[i]] = median_or_null(result.stages[i]);
            samples[kStageNames[i]] = samples_or_null(result.stages[i]);
        }
        json.write({{"type", "breakdown"},
                    {"collective", exchange_.collective().name},
                    {"bytes", exchange_.bytes()},
                    {"contender", result.contender.name},
                    {"ranks", session_.ranks},
                    {"buffers", exchange_.buffers()},
                    {"offloaded", result.offloaded},
                    {"total_median_us", median(result.total)},
                    {"stages_median_us", medians},
                    {"copies_by_ranks_median_us", median_or_null(result.by_ranks)},
                    {"copies_by_services_median_us", median_or_null(result.by_services)},
                    {"stages_us", samples},
                    {"copies_by_ranks_us", samples_or_null(result.by_ranks)},
                    {"copies_by_services_us", samples_or_null(result.by_services)}});
    }
}

void print_breakdown_header(const Session& session, const Collective& collective) {
    fmt::print(
        "\n# {}, {} ranks: where the time of the slowest rank's call goes;\n# us, medians over iterations\n",
        collective.name, session.ranks);
    fmt::print("{:>5} {:<{}} {:>6}", "bytes", "contender", name_width(session.options), "total");
    for (std::size_t i = 0; i < kStageNames.size(); ++i)
        fmt::print(" {:>{}}", kStageNames[i], stage_width(i));
    fmt::print(" {:>6} {:>6}\n", "ranks", "SPs");
    std::fflush(stdout);
}

}  // namespace

int run_breakdown(Session& session, int nodes, JsonLines& json) {
    const bool any = std::any_of(session.contenders.begin(), session.contenders.end(),
                                 [](const Contender& one) { return one.is_longshore; });
    if (!any || nodes > 1 || any_rank(!session.hooks.set_breakdown(true))) {
        if (session.root())
            fmt::print(stderr,
                       "longshore-bench: --breakdown needs Longshore preloaded and on, and all ranks on one "
                       "machine\n");
        return 2;
    }
    session.barrier();
    const Options& options = session.options;
    Progress progress(session.root() ? options.progress : ProgressStyle::kNone,
                      int(options.collectives.size() * options.sizes.size()));
    for (const std::string& name : options.collectives) {
        const Collective& collective = *find_collective(name);
        if (session.root()) print_breakdown_header(session, collective);
        for (std::size_t bytes : options.sizes) {
            if (!Exchange::fits(bytes, session.ranks)) continue;
            progress.start_row(fmt::format("{} {}", name, show_size(bytes)));
            BreakdownRow row(session, collective, bytes);
            if (!row.run()) return 1;
            progress.end_row(row.seconds());
            if (!session.root()) continue;
            row.print();
            row.write(json);
        }
    }
    return 0;
}

}  // namespace longshore::bench
