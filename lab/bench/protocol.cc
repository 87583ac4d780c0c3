#include "bench/protocol.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/polite.h"
#include "bench/statistics.h"
#include "bench/turns.h"

namespace longshore::bench {

namespace {

constexpr double kFirstLookOverPure = 4;  // service processes alone
constexpr double kComputeOverOperation = 1.2;
constexpr int kServiceIterationsMax = 10, kServiceWarmup = 5;
constexpr int kVerifyRounds = 2;

void finish(const Calls& calls, MPI_Request& request) {
    calls.wait(&request, MPI_STATUS_IGNORE);
}

std::vector<double> rates(const std::vector<double>& bytes, const std::vector<double>& us) {
    std::vector<double> result;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        if (us[i] > 0) result.push_back(bytes[i] / us[i]);
    return result;
}

void append(std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

// One rank's iterations of one turn, reduced to rank 0 at its end so that nothing of it lies between
// operations.
struct Turn {
    std::vector<double> pure, overall, exposed, post, wait, compute, compute_alone, cpu;

    void add_to(Measured& measured, int ranks) const {
        append(measured.pure, max_over_ranks(pure));
        append(measured.overall, max_over_ranks(overall));
        append(measured.exposed, max_over_ranks(exposed));
        append(measured.post, max_over_ranks(post));
        append(measured.wait, max_over_ranks(wait));
        append(measured.post_mean, mean_over_ranks(post));
        append(measured.wait_mean, mean_over_ranks(wait));
        append(measured.compute, max_over_ranks(compute));
        append(measured.compute_alone, max_over_ranks(compute_alone));
        std::vector<double> sum(cpu.size());
        PMPI_Reduce(cpu.data(), sum.data(), int(cpu.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        append(measured.cpu, sum);
    }
};

class RowMeasurement {
  public:
    RowMeasurement(Session& session, Computation& computation, Buffers& buffers, Row& row)
        : session_(session),
          computation_(computation),
          buffers_(buffers),
          exchange_(buffers.own()),
          row_(row) {
        for (const Contender& contender : session.contenders_for(exchange_.collective()))
            row_.results.emplace_back().contender = contender;
    }

    void run() {
        const double start = now_us();
        choose_iterations(warm_up());
        if (exchange_.collective().nonblocking) {
            const bool service_measured = measure_service_time();
            choose_compute_length(service_measured ? row_.t_sp_seen : row_.results.front().pure);
        }
        for (Measured& measured : row_.results) measured.pure.clear();  // those were for choosing only
        take_turns(session_, row_.results.size(), start,
                   [this](std::size_t which, int) { take_turn(row_.results[which]); });
        sum_counts();
        row_.seconds = (now_us() - start) / 1e6;
    }

  private:
    int next_buffer() { return next_buffer_++ % exchange_.buffers(); }

    // Returns the time of one operation of the slowest contender, the same on all ranks.
    double warm_up() {
        double slowest = 0;
        for (Measured& measured : row_.results) {
            Turn turn;
            session_.use(measured.contender, exchange_.collective());
            for (int i = 0; i < session_.options.warmup; ++i) pure_iteration(measured.contender, turn);
            append(measured.pure, max_over_ranks(turn.pure));
            slowest = std::max(slowest, median(measured.pure));
        }
        return from_root(slowest);
    }

    void choose_iterations(double one_us) {
        const bool nonblocking = exchange_.collective().nonblocking;
        // Pure, and overall with its computing: about three times as long.
        const double per_iteration = one_us * (nonblocking ? 4 : 1);
        const int batches = session_.options.samples * int(row_.results.size());
        row_.iterations = affordable_iterations(session_.options.iterations, per_iteration,
                                                session_.options.time_limit_s, batches);
        row_.iterations = int(from_root(row_.iterations));
    }

    // On one node by what the library notes of each block: a rank that looks needs a core, and on a machine
    // whose idle cores wake up late it sees the end late, too. Returns false where there is nothing to
    // measure: no Longshore, or the MPI serves this row.
    bool measure_service_time() {
        const auto longshore = std::find_if(row_.results.begin(), row_.results.end(),
                                            [](const Measured& one) { return one.contender.is_longshore; });
        if (longshore == row_.results.end() || !session_.cooperative_can_change) return false;
        session_.use(longshore->contender, exchange_.collective());
        session_.hooks.set_cooperative(false);
        const bool noted = !any_rank(!session_.hooks.set_breakdown(true));
        const double first_look = kFirstLookOverPure * from_root(median(longshore->pure));
        const longshore_counters before = session_.hooks.counters();
        std::vector<double> moved, seen, copied, copied_us;
        // Ranks alone have moved these buffers so far: service processes map them in their first uses.
        for (int i = -kServiceWarmup; i < std::min(row_.iterations, kServiceIterationsMax); ++i) {
            session_.barrier();
            const double start = now_us();
            MPI_Request request = exchange_.start(*longshore->contender.calls, next_buffer());
            finish_politely(longshore->contender.calls->test, request, first_look);
            const double end = now_us();
            const longshore_times times = session_.hooks.times();
            polite_barrier(MPI_COMM_WORLD);
            if (i < 0) continue;
            seen.push_back(end - start);
            // A rank of whose blocks nothing was noted has nothing to add to the ranks' maximum.
            moved.push_back(std::max(double(std::max(times.landed_ns, times.read_ns)) / 1e3 - start, 0.0));
            copied_us.push_back(double(times.copies_by_services_ns) / 1e3);
            copied.push_back(times.copies_by_services_ns > 0 ? double(exchange_.bytes_received()) : 0);
        }
        session_.barrier();
        if (noted) session_.hooks.set_breakdown(false);
        session_.hooks.set_cooperative(session_.options.cooperative);
        if (any_rank(session_.hooks.counters().offloaded == before.offloaded)) return false;
        row_.t_sp_seen = max_over_ranks(seen);
        row_.t_sp = noted ? max_over_ranks(moved) : row_.t_sp_seen;
        std::erase(row_.t_sp, 0.0);
        if (noted) {
            row_.service_rate = rates(mean_over_ranks(copied), mean_over_ranks(copied_us));
            measure_memcpy(int(copied.size()));
        }
        return true;
    }

    void measure_memcpy(int iterations) {
        std::vector<double> bytes, us;
        for (int i = -kServiceWarmup; i < iterations && session_.root(); ++i) {
            const double start = now_us();
            const auto copied = double(exchange_.copy_own((i + kServiceWarmup) % exchange_.buffers()));
            if (i < 0) continue;
            us.push_back(now_us() - start);
            bytes.push_back(copied);
        }
        polite_barrier(MPI_COMM_WORLD);
        row_.memcpy_rate = rates(bytes, us);
    }

    void choose_compute_length(const std::vector<double>& operation) {
        const double wanted = session_.options.compute_us;
        const double length = from_root(wanted > 0 ? wanted : kComputeOverOperation * median(operation));
        session_.barrier();
        computation_.prepare(length);
        for (Measured& measured : row_.results) measured.compute_length = length;
    }

    void pure_iteration(const Contender& contender, Turn& turn) {
        const int buffer = next_buffer();
        Exchange& exchange = buffers_.of(contender);
        session_.barrier();
        const double start = now_us();
        exchange.run(*contender.calls, buffer);
        turn.pure.push_back(now_us() - start);
    }

    void overall_iteration(const Calls& calls, Turn& turn) {
        const int buffer = next_buffer();
        session_.barrier();
        const double cpu_start = cpu_us();
        const double start = now_us();
        MPI_Request request = exchange_.start(calls, buffer);
        const double posted = now_us();
        computation_.run();
        const double computed = now_us();
        finish(calls, request);
        const double end = now_us();
        turn.cpu.push_back(cpu_us() - cpu_start);
        turn.overall.push_back(end - start);
        turn.post.push_back(posted - start);
        turn.compute.push_back(computed - posted);
        turn.wait.push_back(end - computed);
        turn.exposed.push_back((end - start) - (computed - posted));
    }

    void take_turn(Measured& measured) {
        const Calls& calls = *measured.contender.calls;
        session_.use(measured.contender, exchange_.collective());
        Turn turn;
        if (measured.contender.is_limit) {
            for (int i = 0; i < row_.iterations; ++i) pure_iteration(measured.contender, turn);
        } else if (exchange_.collective().nonblocking) {
            for (int i = 0; i < row_.iterations; ++i) pure_iteration(measured.contender, turn);
            if (session_.options.compute == Compute::kWork) compute_alone(turn);
            const longshore_counters before = session_.hooks.counters();
            for (int i = 0; i < row_.iterations; ++i) overall_iteration(calls, turn);
            count(measured, before);
        } else {
            const longshore_counters before = session_.hooks.counters();
            for (int i = 0; i < row_.iterations; ++i) pure_iteration(measured.contender, turn);
            count(measured, before);
        }
        turn.add_to(measured, session_.ranks);
    }

    // A turn's iterations: those with computing, for a blocking collective all.
    void count(Measured& measured, const longshore_counters& before) const {
        const longshore_counters after = session_.hooks.counters();
        measured.service_bytes += double(after.bytes_by_service - before.bytes_by_service);
        measured.offloaded_calls += double(after.offloaded - before.offloaded);
        measured.calls += row_.iterations;
        measured.moved_bytes += double(exchange_.bytes_from_others()) * row_.iterations;
    }

    void compute_alone(Turn& turn) {
        for (int i = 0; i < row_.iterations; ++i) {
            session_.barrier();
            const double start = now_us();
            computation_.run();
            turn.compute_alone.push_back(now_us() - start);
        }
    }

    void sum_counts() {
        for (Measured& measured : row_.results) {
            measured.service_bytes = sum_over_ranks(measured.service_bytes);
            measured.moved_bytes = sum_over_ranks(measured.moved_bytes);
            measured.offloaded_calls = sum_over_ranks(measured.offloaded_calls);
            measured.calls = sum_over_ranks(measured.calls);
        }
    }

    Session& session_;
    Computation& computation_;
    Buffers& buffers_;
    Exchange& exchange_;  // of those that make calls
    Row& row_;
    int next_buffer_ = 0;
};

bool verify_one_way(const Session& session, Exchange& exchange, const Contender& contender,
                    std::uint64_t first_iteration, bool renewed, bool politely) {
    std::optional<std::string> wrong;
    session.use(contender, exchange.collective());
    for (int i = 0; i < kVerifyRounds * exchange.buffers(); ++i) {
        const std::uint64_t iteration = first_iteration + std::uint64_t(i);
        const int buffer = i % exchange.buffers();
        if (renewed) exchange.renew(buffer);
        exchange.fill(buffer, iteration);
        session.barrier();
        MPI_Request request = exchange.start(*contender.calls, buffer);
        if (politely) finish_politely(contender.calls->test, request, 0);
        if (request != MPI_REQUEST_NULL) finish(*contender.calls, request);
        if (!wrong) wrong = exchange.check(buffer, iteration);
    }
    if (wrong)
        wrong = fmt::format("WRONG RESULT: {} of {} bytes by {}{}: {}", exchange.collective().name,
                            exchange.bytes(), contender.name, politely ? " (service processes alone)" : "",
                            *wrong);
    return !report_failure(session, wrong ? wrong->c_str() : nullptr);
}

}  // namespace

Buffers::Buffers(const Session& session, const Collective& collective, std::size_t bytes)
    : own_(collective, bytes, session.rank, session.ranks, session.options.buffers, MPI_COMM_WORLD) {
    for (const Contender& contender : session.contenders_for(collective))
        if (contender.is_limit)
            shared_ =
                std::make_unique<LimitExchange>(collective, bytes, session.rank, session.ranks,
                                                session.options.buffers, MPI_COMM_WORLD, session.crowded);
}

bool verify(const Session& session, Exchange& exchange, const Contender& contender,
            std::uint64_t first_iteration, bool renewed) {
    if (!verify_one_way(session, exchange, contender, first_iteration, renewed, false)) return false;
    if (!contender.is_longshore || !session.cooperative_can_change || !exchange.collective().nonblocking)
        return true;
    session.hooks.set_cooperative(false);
    const bool right = verify_one_way(session, exchange, contender, first_iteration + 1000, renewed, true);
    session.barrier();
    session.hooks.set_cooperative(session.options.cooperative);
    return right;
}

std::optional<Row> measure_row(Session& session, Computation& computation, const Collective& collective,
                               std::size_t bytes) {
    Buffers buffers(session, collective, bytes);
    const std::vector<Contender> contenders = session.contenders_for(collective);
    for (const Contender& contender : contenders)
        if (!verify(session, buffers.of(contender), contender, 0)) return std::nullopt;
    Row row;
    row.collective = &collective;
    row.bytes = bytes;
    RowMeasurement(session, computation, buffers, row).run();
    // Again afterwards: what was timed may have broken something.
    for (const Contender& contender : contenders)
        if (!verify(session, buffers.of(contender), contender, 1'000'000)) return std::nullopt;
    return row;
}

}  // namespace longshore::bench
