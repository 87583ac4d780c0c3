#include "bench/machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <fstream>

#include "bench_commit.h"  // made by every build: kCommit

namespace longshore::bench {

namespace {

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
    PMPI_Comm_free(&node);
    const int first_here = rank_here == 0 ? 1 : 0;
    PMPI_Allreduce(&first_here, &machine.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return machine;
}

void print(const Machine& machine) {
    fmt::print("# cpu     {}; the ranks may use {} cores{}\n", machine.cpu, machine.cores,
               machine.cores_of_rank < machine.cores
                   ? fmt::format(", rank 0 is bound to {}", machine.cores_of_rank)
                   : "");
    fmt::print("# kernel  {}\n", machine.kernel);
    fmt::print("# mpi     {}\n", machine.mpi);
    fmt::print("# commit  {}\n", machine.commit);
    fmt::print("# date    {}\n", machine.date);
    fmt::print("# ranks   {} on {} node{}{}\n", machine.ranks, machine.nodes, machine.nodes == 1 ? "" : "s",
               machine.ranks_here > machine.cores
                   ? ": more ranks than cores, these times measure the scheduler as well"
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
            {"ranks_on_first_node", machine.ranks_here}};
}

}  // namespace longshore::bench
