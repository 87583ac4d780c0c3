// One rank enters late. The others have long entered and wait. What counts is the time from the late rank's
// entry to the completion on the last rank: at best it is the time for moving the late rank's own blocks,
// because everything else could have been moved before. That time is measured in the same run: an ialltoallv
// of only those blocks (the late rank's to and from all others; with a root, to and from that), every rank on
// time.
#include <fmt/format.h>

#include "base/text.h"
#include "bench/compute.h"
#include "bench/exchange.h"
#include "bench/modes.h"
#include "bench/protocol.h"
#include "bench/statistics.h"

namespace longshore::bench {

namespace {

// Largest completion time over the ranks minus the late rank's entry, in us; on rank 0.
struct LateTimes {
    std::vector<double> whole, own;
};

void finish_if_open(const Calls& calls, MPI_Request& request) {
    if (request != MPI_REQUEST_NULL) calls.wait(&request, MPI_STATUS_IGNORE);
}

double late_iteration(Exchange& exchange, const Calls& calls, int rank, int late_rank, double late_us) {
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == late_rank) sleep_us(late_us);
    const double entry = now_us();
    MPI_Request request = exchange.start(calls, 0);
    finish_if_open(calls, request);
    double last = now_us(), end = 0;
    PMPI_Allreduce(&last, &end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double late_entry = entry;
    PMPI_Bcast(&late_entry, 1, MPI_DOUBLE, late_rank, MPI_COMM_WORLD);
    return end - late_entry;
}

double own_iteration(Exchange& exchange, const Calls& calls) {
    PMPI_Barrier(MPI_COMM_WORLD);
    const double start = now_us();
    MPI_Request request = exchange.start(calls, 0);
    finish_if_open(calls, request);
    return max_over_ranks({now_us() - start})[0];
}

void print_line(const Session& session, const Exchange& exchange, const Contender& contender,
                const LateTimes& times, JsonLines& json) {
    const Summary whole = summarize(times.whole), own = summarize(times.own);
    fmt::print("{:>6} {:<9} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>7.2f}\n",
               show_size(exchange.bytes()), contender.name, whole.min, whole.median, whole.p99, whole.max,
               own.median, ratio(whole.median, own.median));
    std::fflush(stdout);
    json.write({{"type", "late"},
                {"collective", exchange.collective().name},
                {"bytes", exchange.bytes()},
                {"contender", contender.name},
                {"late_ms", session.options.late_ms},
                {"from_entry_us", times.whole},
                {"own_blocks_us", times.own}});
}

bool measure_late(Session& session, const Collective& collective, std::size_t bytes, JsonLines& json) {
    const int late_rank = session.ranks - 1;
    Exchange exchange(collective, bytes, session.rank, session.ranks, 1, MPI_COMM_WORLD);
    Exchange own(*find_collective("ialltoallv"), bytes, session.rank, session.ranks, 1, MPI_COMM_WORLD);
    own.keep_only_pairs_with(late_rank, has_root(collective.pattern));
    std::vector<LateTimes> times(session.contenders.size());
    for (const Contender& contender : session.contenders)
        if (!verify(session, exchange, contender, 0)) return false;

    const double start = now_us();
    for (int i = 0; i < session.options.samples; ++i) {
        for (std::size_t k = 0; k < times.size(); ++k) {
            const Calls& calls = *session.contenders[k].calls;
            const double late_us = session.options.late_ms * 1e3;
            times[k].own.push_back(own_iteration(own, calls));
            times[k].whole.push_back(late_iteration(exchange, calls, session.rank, late_rank, late_us));
        }
        if (from_root(now_us() - start) > session.options.time_limit_s * 1e6) break;
    }
    if (session.root())
        for (std::size_t k = 0; k < times.size(); ++k)
            print_line(session, exchange, session.contenders[k], times[k], json);
    return true;
}

}  // namespace

int run_late(Session& session, bool has_one_clock, JsonLines& json) {
    if (!has_one_clock || session.ranks < 2) {
        if (session.root())
            fmt::print(stderr,
                       "longshore-bench: --late needs at least two ranks, all on one machine: clocks of two "
                       "machines are not comparable\n");
        return 2;
    }
    for (const std::string& name : session.options.collectives) {
        const Collective& collective = *find_collective(name);
        if (session.root()) {
            fmt::print(
                "\n# {}, {} ranks, rank {} enters {} ms late; us from its entry to the last rank's "
                "completion\n",
                name, session.ranks, session.ranks - 1, session.options.late_ms);
            fmt::print("{:>6} {:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "bytes", "contender", "min",
                       "median", "p99", "max", "its own", "x own");
        }
        for (std::size_t bytes : session.options.sizes)
            if (Exchange::fits(bytes, session.ranks) && !measure_late(session, collective, bytes, json))
                return 1;
    }
    return 0;
}

}  // namespace longshore::bench
