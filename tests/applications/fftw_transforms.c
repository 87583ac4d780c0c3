/* FFTW's own MPI transforms: 2-D and 3-D, even and uneven, transposed and not, against one rank's FFTW. Out
 * of place, and FFTW may overwrite what it is given: then it transposes by MPI_Alltoall and MPI_Alltoallv,
 * else by point-to-point. */
#include <complex.h>
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double value(ptrdiff_t i) {
    return (double)((unsigned)i * 2654435761u >> 8) / (1 << 24) - 0.5;
}

/* The largest difference from the serial transform of the same numbers, on this rank. */
static double difference(int dimensions, const ptrdiff_t* n, unsigned transposed) {
    ptrdiff_t total = 1, plane = 1;
    for (int d = 0; d < dimensions; ++d) total *= n[d];
    plane = total / n[0];
    ptrdiff_t own0, start0, own1, start1;
    ptrdiff_t room =
        fftw_mpi_local_size_transposed(dimensions, n, MPI_COMM_WORLD, &own0, &start0, &own1, &start1);
    fftw_complex *given = fftw_alloc_complex((size_t)room), *part = fftw_alloc_complex((size_t)room);
    const unsigned how = FFTW_ESTIMATE | FFTW_DESTROY_INPUT | (transposed ? FFTW_MPI_TRANSPOSED_OUT : 0);
    fftw_plan plan = fftw_mpi_plan_dft(dimensions, n, given, part, MPI_COMM_WORLD, FFTW_FORWARD, how);
    for (ptrdiff_t i = 0; i < own0 * plane; ++i) given[i] = value(start0 * plane + i) + I * value(i + 17);
    fftw_complex* whole = fftw_alloc_complex((size_t)total);
    int size, rank, counts[64], places[64];
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int mine = (int)(own0 * plane);
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    places[0] = 0;
    for (int r = 1; r < size; ++r) places[r] = places[r - 1] + counts[r - 1];
    MPI_Allgatherv(given, mine, MPI_C_DOUBLE_COMPLEX, whole, counts, places, MPI_C_DOUBLE_COMPLEX,
                   MPI_COMM_WORLD);

    int extents[3] = {0, 0, 0};
    for (int d = 0; d < dimensions; ++d) extents[d] = (int)n[d];
    fftw_plan serial = fftw_plan_dft(dimensions, extents, whole, whole, FFTW_FORWARD, FFTW_ESTIMATE);
    fftw_execute(serial);
    fftw_execute(plan);

    double worst = 0;
    if (!transposed) {
        for (ptrdiff_t i = 0; i < own0 * plane; ++i)
            worst = fmax(worst, cabs(part[i] - whole[start0 * plane + i]));
    } else { /* the first two axes have changed places */
        const ptrdiff_t rest = plane / n[1];
        for (ptrdiff_t b = 0; b < own1; ++b)
            for (ptrdiff_t a = 0; a < n[0]; ++a)
                for (ptrdiff_t c = 0; c < rest; ++c)
                    worst = fmax(worst, cabs(part[(b * n[0] + a) * rest + c] -
                                             whole[(a * n[1] + start1 + b) * rest + c]));
    }
    fftw_destroy_plan(plan);
    fftw_destroy_plan(serial);
    fftw_free(given);
    fftw_free(part);
    fftw_free(whole);
    return worst;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    fftw_mpi_init();
    static const ptrdiff_t shapes[][3] = {{64, 64, 0}, {37, 50, 0}, {32, 32, 32}, {20, 33, 18}, {96, 64, 40}};
    int rank, failures = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s)
        for (unsigned transposed = 0; transposed < 2; ++transposed) {
            double own = difference(shapes[s][2] ? 3 : 2, shapes[s], transposed), worst;
            MPI_Allreduce(&own, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (!(worst < 1e-9)) ++failures;
            if (rank == 0)
                printf("%td x %td x %td%s: difference %.2e\n", shapes[s][0], shapes[s][1], shapes[s][2],
                       transposed ? ", transposed" : "", worst);
        }
    if (rank == 0) printf("fftw transforms: %s\n", failures ? "FAILED" : "ok");
    fftw_mpi_cleanup();
    MPI_Finalize();
    return failures ? 1 : 0;
}
