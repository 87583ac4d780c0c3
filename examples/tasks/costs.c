/* What a task costs here, on rank 0; the other ranks sleep:
 *     longshore run mpirun -np 2 ./costs tasks [COUNT]     submitting, round trips, 1 MiB in and out by a
 * task, 1 MiB that is kept mpirun -np 2 ./costs messages [COUNT]                the same 1 MiB by MPI_Send
 * and MPI_Recv with rank 1 longshore run mpirun -np 2 ./costs pools [COUNT]     an MPI_Alltoall of 64 KiB
 * without a pool, with an idle and a busy one Medians in microseconds. docs/tasks.md says how they are to be
 * read. */
#include <longshore_task.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kBytes = 1 << 20, kBlock = 64 << 10 };
static int rank, size, count = 2000;
static longshore_pool* pool;
static char *in, *out;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double median(double* samples, int n) {
    qsort(samples, (size_t)n, sizeof *samples, compare);
    return samples[n / 2];
}

static void must(int result) {
    if (result == 0) return;
    fprintf(stderr, "costs: %s\n", longshore_task_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* `asleep`: the task process has had time to go to sleep before. */
static void empty_tasks(int asleep) {
    const int n = asleep ? count / 20 : count;
    double* submits = malloc(2 * (size_t)n * sizeof *submits);
    double* trips = submits + n;
    for (int i = 0; i < n; ++i) {
        longshore_task* task;
        if (asleep) usleep(5000);
        const double begin = now_us();
        must(longshore_submit(pool, "empty", NULL, 0, NULL, 0, &task));
        submits[i] = now_us() - begin;
        must(longshore_wait(&task));
        trips[i] = now_us() - begin;
    }
    const char* state = asleep ? "asleep" : "awake";
    printf("submit, task process %s: %.2f\nround trip of an empty task, task process %s: %.2f\n", state,
           median(submits, n), state, median(trips, n));
    free(submits);
}

static void exchange_by_task(void) {
    const int n = count / 10;
    double* trips = malloc((size_t)n * sizeof *trips);
    longshore_pool_counters before, after;
    longshore_get_pool_counters(pool, &before);
    for (int i = -10; i < n; ++i) {
        const longshore_buffer buffers[] = {{in, kBytes, LONGSHORE_IN}, {out, kBytes, LONGSHORE_OUT}};
        longshore_task* task;
        memset(in, i, 64);
        const double begin = now_us();
        must(longshore_submit(pool, "copy", NULL, 0, buffers, 2, &task));
        must(longshore_wait(&task));
        if (i >= 0) trips[i] = now_us() - begin;
        if (out[63] != (char)i || out[kBytes - 1] != in[kBytes - 1]) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    longshore_get_pool_counters(pool, &after);
    printf("1 MiB there, copied, and back, by a task: %.2f; bytes copied on the way: %llu\n",
           median(trips, n), (unsigned long long)(after.bytes_copied - before.bytes_copied));
    free(trips);
}

/* Empty tasks that are given 1 MiB of static data, as an IN buffer, kept, and kept with 4 KiB that change
 * before each. */
static void give_static_data(void) {
    static char table[kBytes];
    const char* const names[] = {"IN", "kept", "kept, 4 KiB changed"};
    const int n = count / 10;
    double* trips = malloc((size_t)n * sizeof *trips);
    longshore_task *task, *change = NULL;
    must(longshore_keep(pool, table, kBytes, &task));
    must(longshore_wait(&task));
    for (int way = 0; way < 3; ++way) {
        const longshore_buffer buffer = {table, kBytes, way == 0 ? LONGSHORE_IN : LONGSHORE_KEPT};
        for (int i = -10; i < n; ++i) {
            const double begin = now_us();
            if (way == 2) must(longshore_change(pool, table, 4096, &change));
            must(longshore_submit(pool, "empty", NULL, 0, &buffer, 1, &task));
            must(longshore_wait(&task));
            if (way == 2) must(longshore_wait(&change));
            if (i >= 0) trips[i] = now_us() - begin;
        }
        printf("round trip of an empty task with 1 MiB of static data, %s: %.2f\n", names[way],
               median(trips, n));
    }
    must(longshore_forget(pool, table));
    free(trips);
}

static void exchange_by_messages(void) {
    const int n = count / 10;
    double* trips = malloc((size_t)n * sizeof *trips);
    for (int i = -10; i < n; ++i) {
        const double begin = now_us();
        if (rank == 0) {
            MPI_Send(in, kBytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(out, kBytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in, kBytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            memcpy(out, in, kBytes);
            MPI_Send(out, kBytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        }
        if (i >= 0) trips[i] = now_us() - begin;
    }
    if (rank == 0) printf("1 MiB there, copied, and back, by messages: %.2f\n", median(trips, n));
    free(trips);
}

/* The median; *mean: what they took on the average, those in which a rank had no core among them. */
static double alltoall(double* mean) {
    const int n = count / 4;
    double sum = 0;
    double* samples = malloc((size_t)n * sizeof *samples);
    char* blocks = calloc(2 * (size_t)size, kBlock);
    for (int i = -10; i < n; ++i) {
        const double begin = now_us();
        MPI_Alltoall(blocks, kBlock, MPI_CHAR, blocks + (size_t)size * kBlock, kBlock, MPI_CHAR,
                     MPI_COMM_WORLD);
        if (i < 0) continue;
        samples[i] = now_us() - begin;
        sum += samples[i];
    }
    *mean = sum / n;
    const double result = median(samples, n);
    free(samples);
    free(blocks);
    return result;
}

/* In turns, so that what else the machine does falls on all alike. */
static void beside_pools(void) {
    enum { kTurns = 7 };
    enum { kWithout, kIdle, kBusy, kKinds };
    static const char* const kNames[] = {"without a pool", "with an idle one", "with a busy one"};
    double medians[kKinds][kTurns], means[kKinds][kTurns];
    for (int turn = 0; turn < kTurns; ++turn) {
        medians[kWithout][turn] = alltoall(&means[kWithout][turn]);
        must(longshore_open_pool("costs_plugin", &pool));
        medians[kIdle][turn] = alltoall(&means[kIdle][turn]);
        longshore_task* tasks[8];
        const longshore_buffer buffers[] = {{in, kBytes, LONGSHORE_IN}, {out, kBytes, LONGSHORE_OUT}};
        const int rounds = 4000;
        for (int i = 0; i < 8; ++i)
            must(longshore_submit(pool, "copy_often", &rounds, sizeof rounds, buffers, 2, &tasks[i]));
        medians[kBusy][turn] = alltoall(&means[kBusy][turn]);
        for (int i = 0; i < 8; ++i) must(longshore_wait(&tasks[i]));
        must(longshore_close_pool(&pool));
    }
    for (int kind = 0; kind < kKinds && rank == 0; ++kind)
        printf("MPI_Alltoall of 64 KiB %s: %.2f, on the average %.2f\n", kNames[kind],
               median(medians[kind], kTurns), median(means[kind], kTurns));
}

/* Others do not take the cores that are measured on. */
static void sleep_until_all_are_done(void) {
    MPI_Request all;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int done = 0; !done; usleep(2000)) MPI_Test(&all, &done, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2) count = atoi(argv[2]);
    if (argc < 2 || count < 100 || size < 2) {
        fprintf(stderr, "usage: costs tasks|messages|pools [COUNT, at least 100], with at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    in = calloc(1, kBytes);
    out = calloc(1, kBytes);
    if (strcmp(argv[1], "tasks") == 0 && rank == 0) {
        must(longshore_open_pool("costs_plugin", &pool));
        for (int i = 0; i < 100; ++i) { /* warm */
            longshore_task* task;
            must(longshore_submit(pool, "empty", NULL, 0, NULL, 0, &task));
            must(longshore_wait(&task));
        }
        empty_tasks(0);
        empty_tasks(1);
        exchange_by_task();
        give_static_data();
        must(longshore_close_pool(&pool));
    } else if (strcmp(argv[1], "messages") == 0) {
        exchange_by_messages();
    } else if (strcmp(argv[1], "pools") == 0) {
        beside_pools();
    }
    sleep_until_all_are_done();
    MPI_Finalize();
    return 0;
}
