// Calls that Longshore does not carry, each so many times, some while another rank is late; says how long all
// calls of the ranks took as the program sees it, for test_other_calls.py.
//      other_calls FILE
#include <cstring>
#include <vector>

#include "check.h"

namespace {

constexpr int kBarriers = 4, kReductions = 5, kMessages = 3, kWrites = 3;
constexpr useconds_t kLateUs = 50'000;

int rank, size;
double in_calls_s = 0;

// A call, and its time.
template <class Call>
void timed(Call call) {
    const double begin = MPI_Wtime();
    CHECK(call() == MPI_SUCCESS);
    in_calls_s += MPI_Wtime() - begin;
}

// Blocks of all ranks take turns in the file: the MPI's own collectives exchange them.
void write_file(const char* path) {
    constexpr int kBlockBytes = 4096, kBlocks = 64;
    MPI_File file;
    MPI_Datatype turns;
    CHECK(MPI_Type_vector(kBlocks, kBlockBytes, kBlockBytes * size, MPI_BYTE, &turns) == MPI_SUCCESS);
    CHECK(MPI_Type_commit(&turns) == MPI_SUCCESS);
    timed([&] {
        return MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    });
    timed([&] {
        return MPI_File_set_view(file, static_cast<MPI_Offset>(rank) * kBlockBytes, MPI_BYTE, turns, "native",
                                 MPI_INFO_NULL);
    });
    std::vector<char> bytes(kBlockBytes * kBlocks, static_cast<char>(rank));
    for (int i = 0; i < kWrites; ++i)
        timed([&] {
            return MPI_File_write_all(file, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE,
                                      MPI_STATUS_IGNORE);
        });
    timed([&] { return MPI_File_close(&file); });
    MPI_Type_free(&turns);
}

}  // namespace

PROGRAM(other_calls) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < kBarriers; ++i) {
        if (rank == 1 && i != 0) usleep(kLateUs);
        // A program may call either; a tool, which times these calls for the test, does not see the first.
        timed([&] { return i == 0 ? PMPI_Barrier(MPI_COMM_WORLD) : MPI_Barrier(MPI_COMM_WORLD); });
    }
    const double in_barriers_s = in_calls_s;
    int one = 1, sum = 0;
    for (int i = 0; i < kReductions; ++i)
        timed([&] { return MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); });
    CHECK(sum == size);
    for (int i = 0; i < kMessages; ++i)
        timed([&] {
            if (rank == 0) return MPI_Send(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            return rank == 1 ? MPI_Recv(&sum, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                             : MPI_SUCCESS;
        });
    MPI_Comm half;
    timed([&] { return MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half); });
    timed([&] { return MPI_Comm_free(&half); });
    std::vector<int> to(static_cast<size_t>(size)), from(to.size(), rank);
    timed([&] { return MPI_Alltoall(from.data(), 1, MPI_INT, to.data(), 1, MPI_INT, MPI_COMM_WORLD); });
    if (argc > 1) write_file(argv[1]);
    const double mine_s[2] = {in_calls_s, in_barriers_s};
    double whole_s[2] = {};
    MPI_Reduce(mine_s, whole_s, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("calls took %.6f s, barriers %.6f s\n", whole_s[0], whole_s[1]);
    return finish("other_calls");
}
