/* A program that hands a part of its computing to a process at its side, and computes something else meanwhile:
 *     longshore run mpirun -np 2 ./smooth
 * Without Longshore it runs the same plug-in itself. */
#include <longshore_task.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    enum { kCells = 1 << 20 };
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Init(&argc, &argv);
    double *field = malloc(kCells * sizeof *field), *smoothed = malloc(kCells * sizeof *smoothed), own = 0;
    for (int i = 0; i < kCells; ++i) field[i] = i % 1000;

    longshore_pool* pool;
    longshore_task* task;
    if (longshore_open_pool("smooth_plugin", &pool) != 0) {
        fprintf(stderr, "%s\n", longshore_task_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const longshore_buffer buffers[] = {{field, kCells * sizeof *field, LONGSHORE_IN},
                                        {smoothed, kCells * sizeof *smoothed, LONGSHORE_OUT}};
    if (longshore_submit(pool, "smooth", &rounds, sizeof rounds, buffers, 2, &task) != 0) fprintf(stderr, "%s\n", longshore_task_error());
    for (int i = 0; i < kCells; ++i) own += sqrt(field[i]); /* reads what the task only reads, too */
    if (longshore_wait(&task) != 0) fprintf(stderr, "%s\n", longshore_task_error());

    int rank;
    longshore_pool_counters counters;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    longshore_get_pool_counters(pool, &counters);
    if (rank == 0)
        printf("middle %.6f, own %.3f; task processes of rank 0: %u, bytes mapped %llu, copied %llu\n", smoothed[kCells / 2], own,
               counters.processes, (unsigned long long)counters.bytes_mapped, (unsigned long long)counters.bytes_copied);
    longshore_close_pool(&pool);
    MPI_Finalize();
    return 0;
}
