#include "mpi/job/launcher.h"

#include <cstdlib>
#include <cstring>

namespace longshore::mpi {
namespace {

struct Variables {
    const char *size, *rank;
};
constexpr Variables kMpis[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                               {"PMI_SIZE", "PMI_RANK"},
                               {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"}};
constexpr Variables kBatchSystems[] = {{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                       {"FLUX_JOB_SIZE", "FLUX_TASK_RANK"}};

template <size_t N>
Launcher largest_of(const Variables (&all)[N]) {
    Launcher found;
    for (const Variables& names : all) {
        const char *const size = getenv(names.size), *const rank = getenv(names.rank);
        if (size == nullptr || rank == nullptr) continue;
        const auto processes = static_cast<unsigned>(strtoul(size, nullptr, 10));
        if (processes > found.processes) found = {processes, names.size, strcmp(rank, "0") == 0};
    }
    return found;
}

}  // namespace

// A batch system's tasks may be the daemons of an MPI's launcher, which then says more.
Launcher find_launcher() {
    const Launcher of_mpi = largest_of(kMpis);
    return of_mpi.processes != 0 ? of_mpi : largest_of(kBatchSystems);
}

}  // namespace longshore::mpi
