/* Exchanges numbers among all ranks, checks them, and says how many calls Longshore has carried: none without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <longshore.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCount = 50000 };

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int* give = malloc(sizeof *give * kCount * (size_t)size);
    int* take = malloc(sizeof *take * kCount * (size_t)size);
    for (int i = 0; i < kCount * size; ++i) give[i] = rank * size * kCount + i;
    MPI_Request request;
    MPI_Ialltoall(give, kCount, MPI_INT, take, kCount, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int peer = 0; peer < size; ++peer)
        for (int i = 0; i < kCount; ++i)
            wrong += take[peer * kCount + i] != peer * size * kCount + rank * kCount + i;

    int (*counters_of)(longshore_counters*) = NULL;
    *(void**)&counters_of = dlsym(RTLD_DEFAULT, "longshore_get_counters");
    longshore_counters counters = {0};
    if (counters_of) counters_of(&counters);
    if (rank == 0) printf("offloaded %d wrong %d\n", (int)counters.offloaded, wrong);
    MPI_Finalize();
    free(give);
    free(take);
    return wrong != 0;
}
