// MPI-IO while collectives are open. MPICH's is made of PMPI_ calls, some from within the program's own
// waits, and are left to it. With "multiple", rank 1 writes only after a message of
// rank 0's second thread, while rank 0's first waits for rank 1 inside the MPI.
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kWords = 3000;
int rank = 0, size = 0;
MPI_File file;

// Completes both in one of four ways.
void complete(int way, MPI_Request requests[2]) {
    int index = 0, flag = 0;
    switch (way % 4) {
        case 0:
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            break;
        case 2:
            for (int i = 0; i < 2; ++i) MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
            break;
        default:
            while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    }
}

void round(int number) {
    std::vector<int> written(kWords), read(kWords, -1), send(static_cast<size_t>(size * kWords));
    std::vector<int> received(send.size(), -1);
    for (int i = 0; i < kWords; ++i)
        written[static_cast<size_t>(i)] = number * 1'000'000 + rank * 100'000 + i;
    for (int i = 0; i < size * kWords; ++i) send[static_cast<size_t>(i)] = rank + i;
    MPI_Request requests[2];
    MPI_File_iwrite_at_all(file, 0, written.data(), kWords, MPI_INT, &requests[0]);
    MPI_Ialltoall(send.data(), kWords, MPI_INT, received.data(), kWords, MPI_INT, MPI_COMM_WORLD,
                  &requests[1]);
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    complete(number, requests);
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kWords; ++i)
            CHECK(received[static_cast<size_t>(r * kWords + i)] == r + rank * kWords + i);

    MPI_File_iread_at_all(file, 0, read.data(), kWords, MPI_INT, &requests[0]);
    MPI_Ibcast(send.data(), kWords, MPI_INT, 0, copy, &requests[1]);
    complete(number + 1, requests);
    CHECK(read == written && send[7] == 7);
    MPI_Comm_free(&copy);
}

void write_late() {
    std::thread second;
    int value = 7;
    if (rank == 0)
        second = std::thread([&] {
            usleep(200'000);
            MPI_Send(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        });
    if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::vector<int> words(kWords, rank);
    MPI_File_write_at_all(file, 0, words.data(), kWords, MPI_INT, MPI_STATUS_IGNORE);
    if (rank == 0) second.join();
}

}  // namespace

// files PATH [multiple]
PROGRAM(files) {
    int provided = 0;
    const bool multiple = argc > 2;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(!multiple || provided == MPI_THREAD_MULTIPLE);
    // Two phases, in which the ranks exchange what they write and read, although they could do without.
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file) ==
          MPI_SUCCESS);
    MPI_Datatype every_size;
    MPI_Type_vector(kWords, 1, size, MPI_INT, &every_size);
    MPI_Type_commit(&every_size);
    MPI_File_set_view(file, static_cast<MPI_Offset>(sizeof(int)) * rank, MPI_INT, every_size, "native", info);
    for (int number = 0; number < 12; ++number) round(number);
    if (multiple) write_late();
    MPI_File_close(&file);
    MPI_Type_free(&every_size);
    MPI_Info_free(&info);
    return finish("files");
}
