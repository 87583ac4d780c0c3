/* A program that computes and writes a file in turns, for study.py: it knows nothing of Longshore.
 *     saver KIND FOLDER BYTES ROUNDS COMPUTE_S spin|wait
 * KIND: stdio, a stream for each file; mpi-own, a file of its own for each rank by MPI-IO; mpi-shared, one
 * file for all of them; calls: what calls cost on files that nothing is to be done to. `spin`: computes until
 * it has had a processor for COMPUTE_S seconds; `wait`: for so long, as for an accelerator that computes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static const char* folder;

static void must(int good, const char* what) {
    if (good) return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now_s(void) {
    return seconds(CLOCK_MONOTONIC);
}

static void compute(double s, int spins) {
    if (spins) {
        const double end = seconds(CLOCK_THREAD_CPUTIME_ID) + s;
        while (seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
        }
    } else {
        const struct timespec time = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
        nanosleep(&time, NULL);
    }
}

static void save_stdio(int number, const unsigned char* data, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/stdio.%d.%d.ckpt", folder, rank, number);
    FILE* const stream = fopen(path, "w");
    must(stream != NULL && fwrite(data, 1, bytes, stream) == bytes && fclose(stream) == 0, path);
}

static void save_mpi(int number, const unsigned char* data, size_t bytes, int is_shared) {
    char path[4096];
    snprintf(path, sizeof path, "%s/mpi.%d.%d.ckpt", folder, is_shared ? size : rank, number);
    MPI_File file;
    must(MPI_File_open(is_shared ? MPI_COMM_WORLD : MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY,
                       MPI_INFO_NULL, &file) == MPI_SUCCESS,
         path);
    const MPI_Offset at = is_shared ? (MPI_Offset)rank * (MPI_Offset)bytes : 0;
    const int done = is_shared
                         ? MPI_File_write_at_all(file, at, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                         : MPI_File_write_at(file, at, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    must(done == MPI_SUCCESS && MPI_File_close(&file) == MPI_SUCCESS, path);
}

static void save(const char* kind, int number, const unsigned char* data, size_t bytes) {
    if (strcmp(kind, "stdio") == 0)
        save_stdio(number, data, bytes);
    else
        save_mpi(number, data, bytes, strcmp(kind, "mpi-shared") == 0);
}

static void checkpoints(char** words) {
    const size_t bytes = strtoull(words[3], NULL, 10);
    const int rounds = atoi(words[4]), spins = strcmp(words[6], "spin") == 0;
    const double compute_s = atof(words[5]);
    unsigned char* const data = malloc(bytes);
    must(data != NULL && rounds > 0, "malloc");
    for (size_t i = 0; i < bytes; ++i)
        data[i] = (unsigned char)((i * 31 + (i >> 8) * 7 + (size_t)rank * 101) & 255);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now_s();
    double write_s = 0;
    for (int i = 0; i < rounds; ++i) {
        compute(compute_s, spins);
        data[0] = (unsigned char)i;
        const double before = now_s();
        save(words[1], i, data, bytes);
        write_s += now_s() - before;
    }
    const double ended = now_s();
    free(data);
    MPI_Finalize();
    printf("rank %d write %.6f wall %.6f drain %.6f\n", rank, write_s, ended - begin, now_s() - ended);
}

/* Shortest of many short turns, in ns for each call: some are not interrupted by what else runs. */
enum { kTurns = 2000, kCalls = 100 };
#define TIME(name, ...)                                                     \
    do {                                                                    \
        double best = 1e9;                                                  \
        for (int turn = 0; turn < kTurns; ++turn) {                         \
            const double begin = now_s();                                   \
            for (int i = 0; i < kCalls; ++i) __VA_ARGS__;                   \
            if (now_s() - begin < best) best = now_s() - begin;             \
        }                                                                   \
        if (rank == 0) printf("call %s %.1f\n", name, 1e9 * best / kCalls); \
    } while (0)

static void calls(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/calls.%d.ckpt", folder, rank);
    const int fd = open(path, O_RDWR | O_CREAT, 0644);
    must(fd >= 0, path);
    struct stat status;
    char byte = 0;
    TIME("pwrite", must(pwrite(fd, &byte, 1, 0) == 1, "pwrite"));
    TIME("lseek", must(lseek(fd, 0, SEEK_SET) == 0, "lseek"));
    TIME("fstat", must(fstat(fd, &status) == 0, "fstat"));
    TIME("stat", must(stat(path, &status) == 0, "stat"));
    TIME("open+close", must(close(open(path, O_RDONLY)) == 0, "open"));
    const char* const name = strrchr(path, '/') + 1;
    must(chdir(folder) == 0, "chdir");
    TIME("open+close,relative", must(close(open(name, O_RDONLY)) == 0, "open"));
    must(close(fd) == 0, "close");
    MPI_Finalize();
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2) folder = argv[2];
    if (argc > 6)
        checkpoints(argv);
    else if (argc > 2 && strcmp(argv[1], "calls") == 0)
        calls();
    else
        return 2;
    return 0;
}
