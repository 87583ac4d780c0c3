// A program that brings jemalloc: what malloc gave goes to functions that only jemalloc has.
#include <jemalloc/jemalloc.h>

#include <cstring>

#include "check.h"
#include "heap_file.h"

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 100; ++i) {
        const size_t bytes = 100'000 + static_cast<size_t>(i) * 50'000;
        auto* one = static_cast<char*>(malloc(bytes));
        auto* two = static_cast<char*>(calloc(bytes, 1));
        auto* three = static_cast<char*>(aligned_alloc(4096, bytes / 4096 * 4096));
        CHECK(one && two && three);
        fill(one, bytes, rank, 0, i);
        one = static_cast<char*>(rallocx(one, 2 * bytes, 0));
        CHECK(one && is_filled(one, bytes, rank, 0, i));
        CHECK(sallocx(two, 0) >= bytes && xallocx(two, bytes, 0, 0) >= bytes);
        dallocx(one, 0);
        sdallocx(two, bytes, 0);
        dallocx(three, MALLOCX_TCACHE_NONE);
    }
    const int count = 300'000;
    auto* sent = static_cast<char*>(malloc(static_cast<size_t>(count * size)));
    char* received = nullptr;
    MPI_Alloc_mem(count * size, MPI_INFO_NULL, &received);
    CHECK(!is_shared(sent) && is_shared(received));
    for (int round = 0; round < 20; ++round) {
        for (int to = 0; to < size; ++to) fill(sent + to * count, count, rank, to, round);
        MPI_Alltoall(sent, count, MPI_BYTE, received, count, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < size; ++from)
            CHECK(is_filled(received + from * count, count, from, rank, round));
    }
    free(sent);
    MPI_Free_mem(received);
    finish("other_allocator");
}
