// longshore-bench-<mpi>: see options.cc for what it measures.
#include <fmt/format.h>
#include <mpi.h>

#include <exception>

#include "base/text.h"
#include "bench/first_process.h"
#include "bench/machine.h"
#include "bench/modes.h"
#include "bench/protocol.h"
#include "bench/report.h"

namespace longshore::bench {
namespace {

int run_rows(Session& session, JsonLines& json) {
    const Options& options = session.options;
    Computation computation(options.compute);
    Progress progress(session.root() ? options.progress : ProgressStyle::kNone,
                      int(options.collectives.size() * options.sizes.size()));
    for (const std::string& name : options.collectives) {
        const Collective& collective = *find_collective(name);
        if (session.root()) print_header(collective, options, session.ranks);
        for (std::size_t bytes : options.sizes) {
            progress.start_row(fmt::format("{} {}", name, show_size(bytes)));
            if (!Exchange::fits(bytes, session.ranks)) {
                if (session.root())
                    fmt::print("{:>6} left out: the receive buffer passes MPI's int displacements\n",
                               show_size(bytes));
                progress.end_row(0);
                continue;
            }
            if (session.contenders_for(collective).empty()) {
                if (session.root()) fmt::print("{:>6} left out: no contender has it\n", show_size(bytes));
                progress.end_row(0);
                continue;
            }
            const std::optional<Row> row = measure_row(session, computation, collective, bytes);
            if (!row) return 1;
            progress.end_row(row->seconds);
            if (!session.root()) continue;
            print_row(*row, options);
            write_row(*row, options, json);
        }
    }
    return 0;
}

int run(const Options& options) {
    const Machine machine = describe_machine();
    Session session = make_session(options, machine);
    JsonLines json(session.root() ? options.json : "", options.json_append);
    if (session.root()) {
        print(machine);
        if (!session.note.empty()) fmt::print("# note    {}\n", session.note);
        json.write(to_json(machine));
    }
    switch (options.mode) {
        case Mode::kBreakdown:
            return run_breakdown(session, machine.nodes, json);
        case Mode::kFirstUse:
            return run_first_use(session, json);
        case Mode::kOverhead:
            return run_overhead(session, json);
        case Mode::kLate:
            return run_late(session, machine.has_one_clock, json);
        case Mode::kImbalance:
            return run_imbalance(session, machine.has_one_clock, json);
        case Mode::kCopyLimit:
            if (const int status = run_copy_rates(session, machine.nodes, json); status != 0) return status;
            return run_rows(session, json);
        case Mode::kRows:
            return run_rows(session, json);
    }
    return 1;
}

}  // namespace
}  // namespace longshore::bench

int main(int argc, char** argv) {
    longshore::bench::Options options;
    std::vector<std::string> names;
    for (const longshore::bench::Collective& collective : longshore::bench::collectives())
        names.push_back(collective.name);
    if (const int status =
            longshore::bench::parse(argc, argv, names, longshore::bench::is_first_process(), options);
        status != -1)
        return status;
    MPI_Init(&argc, &argv);
    int status = 1;
    try {
        status = longshore::bench::run(options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "longshore-bench: {}\n", error.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return status;
}
