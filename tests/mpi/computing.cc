// What a collective costs ranks that compute meanwhile, for tests/cluster/computing.py: each round all ranks
// post it at once, compute (here: sleep) for some time, and wait. One line for each case, of medians over
// the rounds:
//      case COLLECTIVE COMPUTED LATE WHOLE SLOWEST MEAN   (ms)
// COMPUTED: how long all ranks but one compute; LATE: how long the last rank does. WHOLE: from the first
// post to the end of the last rank's wait; SLOWEST, MEAN: times in MPI_Wait, of the others where one is late.
//      computing BYTES ROUNDS COMPUTED:LATE...
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

int rank, size;

struct Buffers {
    std::vector<unsigned char> send, recv;
    Buffers(size_t block, bool is_bcast)
        : send(block), recv(block * static_cast<size_t>(is_bcast ? 1 : size)) {
        fill(send.data(), block, rank, 0, 0);
    }
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

struct Round {
    double whole = 0, slowest = 0, mean = 0;
};

// Times of all ranks; those of the waits without the last one's, if that is late.
Round gather(double whole, double wait, bool one_is_late) {
    const bool counts = !one_is_late || rank != size - 1;
    double mine[2] = {whole, counts ? wait : 0}, most[2], sum = 0, each = counts ? wait : 0;
    MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&each, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return {most[0], most[1], sum / (one_is_late ? size - 1 : size)};
}

Round run_round(Buffers& buffers, size_t block, bool is_bcast, double compute_ms, bool one_is_late) {
    const int bytes = static_cast<int>(block);
    memset(buffers.recv.data(), 0, buffers.recv.size());
    unsigned char* const root_buffer = rank == 0 ? buffers.send.data() : buffers.recv.data();
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    CHECK((is_bcast ? MPI_Ibcast(root_buffer, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request)
                    : MPI_Iallgather(buffers.send.data(), bytes, MPI_BYTE, buffers.recv.data(), bytes,
                                     MPI_BYTE, MPI_COMM_WORLD, &request)) == MPI_SUCCESS);
    if (compute_ms > 0) usleep(static_cast<useconds_t>(compute_ms * 1e3));
    const double wait = MPI_Wtime();
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    const double end = MPI_Wtime();
    if (is_bcast) {
        CHECK(is_filled(root_buffer, block, 0, 0, 0));
    } else {
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(buffers.recv.data() + static_cast<size_t>(r) * block, block, r, 0, 0));
    }
    return gather((end - start) * 1e3, (end - wait) * 1e3, one_is_late);
}

void run_case(size_t block, int rounds, bool is_bcast, double compute_ms, double late_ms) {
    Buffers buffers(block, is_bcast);
    std::vector<double> whole, slowest, mean;
    const double mine = rank == size - 1 ? late_ms : compute_ms;
    for (int i = 0; i < rounds + 1; ++i) {
        const Round r = run_round(buffers, block, is_bcast, mine, late_ms != compute_ms);
        if (i == 0) continue;  // memory is opened
        whole.push_back(r.whole);
        slowest.push_back(r.slowest);
        mean.push_back(r.mean);
    }
    if (rank != 0) return;
    printf("case %s %g %g %.3f %.3f %.3f\n", is_bcast ? "bcast" : "allgather", compute_ms, late_ms,
           median(whole), median(slowest), median(mean));
    fflush(stdout);
}

}  // namespace

PROGRAM(computing) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc > 3);
    const size_t block = static_cast<size_t>(atol(argv[1]));
    const int rounds = atoi(argv[2]);
    for (int i = 3; i < argc; ++i) {
        char* end = nullptr;
        const double compute_ms = strtod(argv[i], &end);
        const double late_ms = *end == ':' ? strtod(end + 1, nullptr) : compute_ms;
        for (const bool is_bcast : {false, true})
            run_case(is_bcast ? block * static_cast<size_t>(size) : block, rounds, is_bcast, compute_ms,
                     late_ms);
    }
    return finish("computing");
}
