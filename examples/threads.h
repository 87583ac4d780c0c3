// How many threads of OpenMP each process of an example computes with.
#pragma once

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <cstdlib>
#include <string>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif

struct Threads {
    int count = 1;
    std::string reason;  // in words
};

// A process's part of the cores that it may run on: a core that n processes may run on counts for each of
// them as 1/n. OpenMP alone takes all cores that a process may run on, whatever else runs there; threads that
// wait for each other at every loop are then a hundred times as slow.
inline Threads threads_of_process(const std::vector<cpu_set_t>& masks, const cpu_set_t& mine) {
    double share = 0;
    int processes = 0;
    for (const cpu_set_t& mask : masks) {
        cpu_set_t common;
        CPU_AND(&common, &mask, &mine);
        processes += CPU_COUNT(&common) > 0;
    }
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &mine)) continue;
        int users = 0;
        for (const cpu_set_t& mask : masks) users += CPU_ISSET(core, &mask) != 0;
        share += 1.0 / users;
    }
    constexpr double kRounding = 1e-9;
    const int cores = CPU_COUNT(&mine), whole = int(share + kRounding);
    return {whole > 1 ? whole : 1, fmt::format("{} core{} for {} process{}", cores, cores == 1 ? "" : "s",
                                               processes, processes == 1 ? "" : "es")};
}

// Sets and returns it; OMP_NUM_THREADS comes first. Collective over MPI_COMM_WORLD, whose processes all
// compute.
inline Threads choose_threads() {
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int size = 0;
    MPI_Comm_size(node, &size);
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        CPU_ZERO(&mine);  // there are more cores than a mask holds
    std::vector<cpu_set_t> masks(static_cast<std::size_t>(size));
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, masks.data(), sizeof mine, MPI_BYTE, node);
    MPI_Comm_free(&node);
#ifdef _OPENMP
    if (std::getenv("OMP_NUM_THREADS")) return {omp_get_max_threads(), "OMP_NUM_THREADS"};
    const Threads chosen = threads_of_process(masks, mine);
    omp_set_num_threads(chosen.count);
    return chosen;
#else
    return {1, "no OpenMP"};
#endif
}
