// Cost of calls that are not offloaded, and of making communicators. The slowest rank's median counts.
#include <fmt/format.h>

#include <algorithm>

#include "bench/modes.h"
#include "bench/statistics.h"

namespace longshore::bench {

namespace {

constexpr int kCallsPerSample = 1000;

// ns per call of one sample.
template <typename Call>
double time_calls(Call call) {
    const double start = now_us();
    for (int i = 0; i < kCallsPerSample; ++i) call();
    return (now_us() - start) * 1e3 / kCallsPerSample;
}

struct Pair {
    std::vector<double> direct, interposed;
};

// In turns; which goes first changes.
template <typename Direct, typename Interposed>
Pair compare(int samples, Direct direct, Interposed interposed) {
    time_calls(direct);
    time_calls(interposed);
    Pair pair;
    for (int i = 0; i < samples; ++i) {
        if (i % 2 == 0) pair.direct.push_back(time_calls(direct));
        pair.interposed.push_back(time_calls(interposed));
        if (i % 2 != 0) pair.direct.push_back(time_calls(direct));
    }
    return pair;
}

void report(const Session& session, const char* name, const Pair& pair, JsonLines& json) {
    const double direct = max_over_ranks({median(pair.direct)})[0];
    const double interposed = max_over_ranks({median(pair.interposed)})[0];
    if (!session.root()) return;
    fmt::print("{:<44} {:>9.1f} {:>9.1f} {:>9.1f}\n", name, direct, interposed, interposed - direct);
    json.write({{"type", "overhead"},
                {"call", name},
                {"pmpi_ns_median_of_slowest_rank", direct},
                {"mpi_ns_median_of_slowest_rank", interposed},
                {"pmpi_ns_rank_0", pair.direct},
                {"mpi_ns_rank_0", pair.interposed}});
}

// What it takes more to make a communicator: its group, and the question whether a rank opts out; of one that
// opts out, the question alone.
void report_communicators(const Session& session, int samples, JsonLines& json) {
    MPI_Info opted_out;
    PMPI_Info_create(&opted_out);
    PMPI_Info_set(opted_out, "longshore_offload", "false");
    const auto report_one = [&](const char* name, MPI_Info info) {
        MPI_Comm made = MPI_COMM_NULL;
        report(session, name,
               compare(
                   samples,
                   [&] {
                       PMPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
                       PMPI_Comm_free(&made);
                   },
                   [&] {
                       MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
                       MPI_Comm_free(&made);
                   }),
               json);
    };
    report_one("MPI_Comm_dup_with_info and MPI_Comm_free", MPI_INFO_NULL);
    report_one("... with longshore_offload=false", opted_out);
    PMPI_Info_free(&opted_out);
}

}  // namespace

int run_overhead(const Session& session, JsonLines& json) {
    const int samples = std::max(session.options.samples, 3);
    if (session.root()) {
        fmt::print(
            "\n# calls that are not offloaded, ns per call: median of {} samples of {} calls, slowest "
            "rank{}\n",
            samples, kCallsPerSample, session.hooks.present() ? "" : " (nothing is preloaded)");
        fmt::print("{:<44} {:>9} {:>9} {:>9}\n", "call", "PMPI_", "MPI_", "more");
    }

    MPI_Request null = MPI_REQUEST_NULL;
    report(session, "MPI_Wait, null request",
           compare(
               samples, [&] { PMPI_Wait(&null, MPI_STATUS_IGNORE); },
               [&] { MPI_Wait(&null, MPI_STATUS_IGNORE); }),
           json);

    // A receive that nothing is sent to yet: a native request that stays open.
    int value = 0, sent = 0, flag = 0;
    MPI_Request pending = MPI_REQUEST_NULL;
    PMPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &pending);
    report(session, "MPI_Test, open receive",
           compare(
               samples, [&] { PMPI_Test(&pending, &flag, MPI_STATUS_IGNORE); },
               [&] { MPI_Test(&pending, &flag, MPI_STATUS_IGNORE); }),
           json);
    PMPI_Send(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    PMPI_Wait(&pending, MPI_STATUS_IGNORE);

    char byte = 0, other = 0;
    report(session, "MPI_Irecv, MPI_Send, MPI_Wait to itself",
           compare(
               samples,
               [&] {
                   PMPI_Irecv(&other, 1, MPI_CHAR, 0, 2, MPI_COMM_SELF, &pending);
                   PMPI_Send(&byte, 1, MPI_CHAR, 0, 2, MPI_COMM_SELF);
                   PMPI_Wait(&pending, MPI_STATUS_IGNORE);
               },
               [&] {
                   MPI_Irecv(&other, 1, MPI_CHAR, 0, 2, MPI_COMM_SELF, &pending);
                   MPI_Send(&byte, 1, MPI_CHAR, 0, 2, MPI_COMM_SELF);
                   MPI_Wait(&pending, MPI_STATUS_IGNORE);
               }),
           json);

    report(session, "MPI_Bcast, communicator of one rank",
           compare(
               samples, [&] { PMPI_Bcast(&byte, 1, MPI_CHAR, 0, MPI_COMM_SELF); },
               [&] { MPI_Bcast(&byte, 1, MPI_CHAR, 0, MPI_COMM_SELF); }),
           json);

    const int one = 1, zero = 0;
    report(session, "MPI_Ialltoallv and MPI_Wait, one rank",
           compare(
               samples,
               [&] {
                   PMPI_Ialltoallv(&byte, &one, &zero, MPI_CHAR, &other, &one, &zero, MPI_CHAR, MPI_COMM_SELF,
                                   &pending);
                   PMPI_Wait(&pending, MPI_STATUS_IGNORE);
               },
               [&] {
                   MPI_Ialltoallv(&byte, &one, &zero, MPI_CHAR, &other, &one, &zero, MPI_CHAR, MPI_COMM_SELF,
                                  &pending);
                   MPI_Wait(&pending, MPI_STATUS_IGNORE);
               }),
           json);
    report_communicators(session, samples, json);
    return 0;
}

}  // namespace longshore::bench
