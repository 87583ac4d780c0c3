/* Two ranks do over MPI what both ends of 'longshore device --to' do over TCP: messages there and back, one way until the
 * last has been taken, and both ways at once. Prints a row for each test and size, of all samples, as JSON lines that look
 * like the rows of 'longshore device --json'.
 *
 * ping_pong SAMPLES SECONDS: so many samples of about so many seconds each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTo, kFrom, kBoth, kEcho };
static char* out;
static char* in;
static int rank;

static const long kLatencySizes[] = {1, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20};
static const long kBandwidthSizes[] = {1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20};
static const long kLongest = 16 << 20;

static void stream(int from, int bytes, long count) {
    if (rank == from) {
        for (long i = 0; i < count; ++i) MPI_Send(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
        MPI_Recv(in, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (long i = 0; i < count; ++i)
            MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, 1, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
    }
}

static void echo(int bytes, long count) {
    for (long i = 0; i < count; ++i) {
        if (rank == 0) MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

/* Seconds, the same on both ranks. */
static double carry_out(int pattern, int bytes, long count) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (pattern == kEcho) {
        echo(bytes, count);
    } else if (pattern == kBoth) {
        for (long i = 0; i < count; ++i)
            MPI_Sendrecv(out, bytes, MPI_BYTE, 1 - rank, 0, in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    } else {
        stream(pattern == kTo ? 0 : 1, bytes, count);
    }
    double seconds = MPI_Wtime() - begin;
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return seconds;
}

static void measure(const char* test, const char* unit, int pattern, long bytes, int samples, double wanted) {
    long count = 10;
    double seconds = carry_out(pattern, (int)bytes, count);
    long most = (1L << 30) / bytes + 4;
    count = (long)((double)count * wanted / (seconds > 1e-7 ? seconds : 1e-7));
    count = count < 4 ? 4 : count > most ? most : count;
    if (rank == 0) printf("{\"test\": \"%s\", \"unit\": \"%s\", \"bytes\": %ld, \"samples\": [", test, unit, bytes);
    for (int i = 0; i < samples; ++i) {
        seconds = carry_out(pattern, (int)bytes, count);
        double value = 1e-9 * (double)bytes * (double)count * (pattern == kBoth ? 2 : 1) / seconds;
        if (pattern == kEcho) value = 1e6 * seconds / (double)count / 2;
        if (unit[0] == '1') value = (double)count / seconds;
        if (rank == 0) printf("%s%.6g", i == 0 ? "" : ", ", value);
    }
    if (rank == 0) printf("]}\n");
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = malloc((size_t)kLongest);
    in = malloc((size_t)kLongest);
    if (argc != 3 || ranks != 2 || out == NULL || in == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(out, 1, (size_t)kLongest);
    memset(in, 1, (size_t)kLongest);
    const int samples = atoi(argv[1]);
    const double seconds = atof(argv[2]);
    for (size_t i = 0; i < sizeof kLatencySizes / sizeof *kLatencySizes; ++i)
        measure("network polling", "us", kEcho, kLatencySizes[i], samples, seconds);
    for (size_t i = 0; i < sizeof kBandwidthSizes / sizeof *kBandwidthSizes; ++i) {
        measure("network to", "GB/s", kTo, kBandwidthSizes[i], samples, seconds);
        measure("network from", "GB/s", kFrom, kBandwidthSizes[i], samples, seconds);
        measure("network both", "GB/s", kBoth, kBandwidthSizes[i], samples, seconds);
    }
    measure("network messages", "1/s", kTo, 8, samples, seconds);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
