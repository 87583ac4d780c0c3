// Built with a sanitizer, or for Valgrind.
//      sanitized [overflow|unset]    rank 0 writes behind a block that was received into; looks at one that
//      was not
#include <cstring>
#include <vector>

#include "check.h"

int main(int argc, char** argv) {
    constexpr int kBytes = 200'000;
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto all = static_cast<size_t>(size) * kBytes;
    auto *send = static_cast<unsigned char*>(malloc(all)), *recv = static_cast<unsigned char*>(malloc(all));
    for (int tag = 0; tag < 10; ++tag) {
        for (int r = 0; r < size; ++r) fill(send + static_cast<size_t>(r) * kBytes, kBytes, rank, r, tag);
        MPI_Request request;
        MPI_Ialltoall(send, kBytes, MPI_BYTE, recv, kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(recv + static_cast<size_t>(r) * kBytes, kBytes, r, rank, tag));
    }
    const char* const fault = argc > 1 && rank == 0 ? argv[1] : "";
    if (strcmp(fault, "unset") == 0) {
        auto* const unset = static_cast<volatile unsigned char*>(malloc(kBytes));
        if (unset[7] == 7) printf("by chance\n");
        free(const_cast<unsigned char*>(unset));
    }
    if (strcmp(fault, "overflow") == 0) static_cast<volatile unsigned char*>(recv)[all] = 1;
    free(send);
    free(recv);
    finish("sanitized");
}
