// Communicators that opt out of offload by an info key, a call of its own on each: the statistics tell which
// were offloaded (test_stats.py).
#include <vector>

#include "check.h"

namespace {

constexpr int kBlock = 65536;

MPI_Comm duplicate(const char* value) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (value) MPI_Info_set(info, "longshore_offload", value);
    MPI_Comm comm;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    return comm;
}

}  // namespace

PROGRAM(opt_out) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<char> out(static_cast<size_t>(size) * kBlock, static_cast<char>(rank + 1)), in(out.size());
    MPI_Comm all = duplicate("false"), one = duplicate(rank == size - 1 ? "false" : nullptr),
             none = duplicate("true");
    MPI_Comm again;
    MPI_Comm_dup(all, &again);

    MPI_Alltoall(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, all);
    for (int r = 0; r < size; ++r) CHECK(in[static_cast<size_t>(r) * kBlock] == r + 1);
    MPI_Allgather(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, one);
    for (int r = 0; r < size; ++r) CHECK(in[static_cast<size_t>(r) * kBlock + 1] == r + 1);
    MPI_Gather(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, 0, none);
    MPI_Scatter(out.data(), kBlock, MPI_CHAR, in.data(), kBlock, MPI_CHAR, 0, again);
    CHECK(in[0] == 1);
    for (MPI_Comm* comm : {&all, &one, &none, &again}) MPI_Comm_free(comm);
    return finish("opt_out");
}
