#include "bench/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <fstream>

#include "bench/polite.h"
#include "bench/statistics.h"
#include "bench/wake_up.h"
#include "bench_commit.h"  // made by every build: kCommit

namespace longshore::bench {

namespace {

constexpr double kLateWakeUs = 200;  // from here on it outweighs an operation of 1 MiB

std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const bool names_it = line.starts_with("model name") || line.starts_with("CPU part");
        if (const auto colon = line.find(": "); names_it && colon != std::string::npos)
            return line.substr(colon + 2);
    }
    return "unknown";
}

std::string kernel_version() {
    utsname names{};
    uname(&names);
    return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

// Of those in the set, but not `but`; -1: none.
int first_core(const cpu_set_t& set, int but) {
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (core != but && CPU_ISSET(core, &set)) return core;
    return -1;
}

// Open MPI answers in one line, MPICH in many: the first says enough.
std::string mpi_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    PMPI_Get_library_version(text, &length);
    std::string line(text);  // Open MPI counts the terminator in the length
    line = line.substr(0, line.find('\n'));
    std::replace(line.begin(), line.end(), '\t', ' ');
    return line;
}

// Collective. A kernel's processes have its CLOCK_MONOTONIC, whatever networks and names they see.
bool runs_under_one_kernel() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    char mine[40] = "", first[40] = "";
    file.getline(mine, sizeof mine);
    std::copy(std::begin(mine), std::end(mine), first);
    PMPI_Bcast(first, int(sizeof first), MPI_CHAR, 0, MPI_COMM_WORLD);
    int same = first[0] != 0 && std::equal(std::begin(mine), std::end(mine), first);
    PMPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return same != 0;
}

// Collective over the node. On its first rank; the others sleep, so that the core it wakes somebody on is
// idle.
void measure_wake_up(MPI_Comm node, const cpu_set_t& mine, const cpu_set_t& together, Machine& machine) {
    int rank_here = 0;
    PMPI_Comm_rank(node, &rank_here);
    const int core = first_core(mine, -1), other = first_core(together, core);
    if (rank_here == 0 && core >= 0 && other >= 0) {
        const Summary latencies = summarize(wake_up_latencies(core, other));
        machine.wake_median = latencies.median;
        machine.wake_p99 = latencies.p99;
    }
    polite_barrier(node);
}

}  // namespace

Machine describe_machine() {
    Machine machine;
    machine.cpu = cpu_model();
    machine.kernel = kernel_version();
    machine.mpi = mpi_version();
    machine.commit = kCommit;
    machine.date = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
    MPI_Comm node = MPI_COMM_NULL;
    PMPI_Comm_size(MPI_COMM_WORLD, &machine.ranks);
    PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int rank_here = 0;
    PMPI_Comm_rank(node, &rank_here);
    PMPI_Comm_size(node, &machine.ranks_here);
    cpu_set_t mine, together;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    PMPI_Allreduce(&mine, &together, int(sizeof mine), MPI_BYTE, MPI_BOR, node);
    machine.cores_of_rank = CPU_COUNT(&mine);
    machine.cores = CPU_COUNT(&together);
    measure_wake_up(node, mine, together, machine);
    PMPI_Comm_free(&node);
    const int first_here = rank_here == 0 ? 1 : 0;
    PMPI_Allreduce(&first_here, &machine.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    machine.has_one_clock = runs_under_one_kernel();
    return machine;
}

void print(const Machine& machine) {
    fmt::print("# cpu     {}; the ranks may use {} cores{}\n", machine.cpu, machine.cores,
               machine.cores_of_rank < machine.cores
                   ? fmt::format(", rank 0 is bound to {}", machine.cores_of_rank)
                   : "");
    fmt::print("# kernel  {}\n", machine.kernel);
    // What follows the version is in the JSON.
    fmt::print("# mpi     {}\n", machine.mpi.substr(0, machine.mpi.find(',')));
    if (machine.wake_median > 0)
        fmt::print("# wake-up of a process on an idle core: median {:.0f} us, p99 {:.0f} us{}\n",
                   machine.wake_median, machine.wake_p99,
                   machine.wake_p99 > kLateWakeUs
                       ? ":\n#         late; times in which somebody slept say more about that"
                       : "");
    fmt::print("# commit  {}\n", machine.commit);
    fmt::print("# date    {}\n", machine.date);
    fmt::print("# ranks   {} on {} node{}{}\n", machine.ranks, machine.nodes, machine.nodes == 1 ? "" : "s",
               machine.ranks_here > machine.cores
                   ? ": more ranks than cores,\n#         these times measure the scheduler as well"
                   : "");
}

nlohmann::json to_json(const Machine& machine) {
    return {{"type", "machine"},
            {"cpu", machine.cpu},
            {"cores", machine.cores},
            {"cores_of_rank_0", machine.cores_of_rank},
            {"kernel", machine.kernel},
            {"mpi", machine.mpi},
            {"commit", machine.commit},
            {"date", machine.date},
            {"ranks", machine.ranks},
            {"nodes", machine.nodes},
            {"ranks_on_first_node", machine.ranks_here},
            {"wake_up_median_us", machine.wake_median},
            {"wake_up_p99_us", machine.wake_p99}};
}

}  // namespace longshore::bench
