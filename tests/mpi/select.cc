// A known number of calls, for a test that looks into the statistics which algorithm carried them. 4 ranks.
//      select          see test_select.py for what each call stands for
//      select switch   forces algorithms while it runs
//      select order    broadcasts whose size goes up and down
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "check.h"
#include "longshore.h"

namespace {

int rank, size;

void bcast(size_t bytes, int tag, bool nonblocking = false) {
    std::vector<unsigned char> data(bytes);
    if (rank == 0) fill(data.data(), bytes, 0, 0, tag);
    if (nonblocking) {
        MPI_Request request;
        MPI_Ibcast(data.data(), static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Bcast(data.data(), static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    CHECK(is_filled(data.data(), bytes, 0, 0, tag));
}

void alltoall(MPI_Comm comm, int count) {
    int n, me;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    const auto bytes = static_cast<size_t>(count);
    std::vector<unsigned char> out(bytes * static_cast<size_t>(n)), in(out.size());
    for (int r = 0; r < n; ++r) fill(out.data() + static_cast<size_t>(r) * bytes, bytes, me, r, 1);
    MPI_Alltoall(out.data(), count, MPI_BYTE, in.data(), count, MPI_BYTE, comm);
    for (int r = 0; r < n; ++r) CHECK(is_filled(in.data() + static_cast<size_t>(r) * bytes, bytes, r, me, 1));
}

void allgather(MPI_Comm comm) {
    int n, me;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    std::vector<int> all(static_cast<size_t>(n));
    MPI_Allgather(&me, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
    for (int r = 0; r < n; ++r) CHECK(all[static_cast<size_t>(r)] == r);
}

// Block r of both has r + 1 elements: what rank r sends here, and all ranks' sizes differ.
void vectors() {
    std::vector<int> counts, places, sent, sent_places, all;
    for (int r = 0, at = 0; r < size; at += ++r) {
        counts.push_back(r + 1);
        places.push_back(at);
        sent.push_back(rank + 1);
        sent_places.push_back(0);
        all.insert(all.end(), static_cast<size_t>(r) + 1, r);
    }
    const std::vector<int> mine(static_cast<size_t>(size), rank);
    std::vector<int> in(all.size(), -1);
    MPI_Alltoallv(mine.data(), sent.data(), sent_places.data(), MPI_INT, in.data(), counts.data(),
                  places.data(), MPI_INT, MPI_COMM_WORLD);
    CHECK(in == all);
    in.assign(all.size(), -1);
    MPI_Allgatherv(mine.data(), rank + 1, MPI_INT, in.data(), counts.data(), places.data(), MPI_INT,
                   MPI_COMM_WORLD);
    CHECK(in == all);
}

void switch_algorithms() {
    const auto set = reinterpret_cast<decltype(&longshore_set)>(dlsym(RTLD_DEFAULT, "longshore_set"));
    CHECK(set != nullptr);
    bcast(4096, 1);
    CHECK(set("bcast_algorithm", "mpi") == 0);
    for (int i = 0; i < 2; ++i) bcast(4096, 2, i == 1);
    CHECK(set("bcast_algorithm", "staged-hierarchical") == 0);
    for (int i = 0; i < 3; ++i) bcast(4096, 3);
    for (const char* bad : {"staged", "Direct", "table"}) CHECK(set("bcast_algorithm", bad) == -1);
    for (const char* bad : {"ibcast_algorithm", "_algorithm", "bcast", "algorithm", ""})
        CHECK(set(bad, "mpi") == -1);
    CHECK(set("bcast_algorithm", nullptr) == -1);
    bcast(4096, 4);
    CHECK(set("bcast_algorithm", "") == 0);
    bcast(4096, 5);
}

// Sizes that rules share with others, the largest first: a rule that was remembered must not serve them all.
void sizes_out_of_order() {
    for (int i = 0; i < 3; ++i)
        for (const size_t bytes : {102400, 16384, 40960, 4096}) bcast(bytes, i);
}

}  // namespace

PROGRAM(select) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && strcmp(argv[1], "switch") == 0) {
        switch_algorithms();
        return finish("select");
    }
    if (argc > 1 && strcmp(argv[1], "order") == 0) {
        sizes_out_of_order();
        return finish("select");
    }
    MPI_Comm half, pair;  // of neighbours; of the first and the last, and of those between them
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 || rank == size - 1, rank, &pair);
    for (int i = 0; i < 2; ++i) bcast(1023, i);
    for (int i = 0; i < 3; ++i) bcast(1024, i);
    bcast(65536, 7, true);
    for (int i = 0; i < 4; ++i) alltoall(pair, 1000);
    alltoall(half, 1000);
    alltoall(MPI_COMM_WORLD, 1000);
    for (int i = 0; i < 5; ++i) allgather(half);
    allgather(pair);
    vectors();
    MPI_Comm_free(&half);
    MPI_Comm_free(&pair);
    return finish("select");
}
