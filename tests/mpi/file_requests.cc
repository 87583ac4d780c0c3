// Several nonblocking requests of MPI-IO outstanding on one file, beside requests that Longshore offloads.
// MPICH makes its file requests of collectives of its own, on a communicator that it has made for the file,
// and advances them in the order in which the program's waits poll them: that order must be the same on all
// ranks.
//
// file_requests PATH FORM FINISH BESIDE
//   FORM    all, at_all, own, at, shared: iwrite_all and iread_all, and so on
//   FINISH  wait, waitall, waitany, waitsome, testall, testany, testsome
//   BESIDE  nothing; offloaded: an Ialltoall and an Iallgather among the requests; message: an Irecv before
//   them, whose
//           peer sends when it has completed its file requests; late: rank 0 starts an offloaded call only
//           when its file requests are complete, and all others wait for both in one call
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr int kWords = 1000, kOutstanding = 3, kRounds = 4;
int rank = 0, size = 0;
std::string form, finish_by, beside;
MPI_File file;

int word(int writer, int round, int which, int i) {
    return writer * 100'000'000 + round * 10'000'000 + which * 1'000'000 + i;
}

// Where the words of one request begin in this rank's view.
MPI_Offset place(int round, int which) {
    return static_cast<MPI_Offset>(round * kOutstanding + which) * kWords;
}

void start_write(int round, int which, const std::vector<int>& words, MPI_Request* request) {
    const MPI_Offset at = place(round, which);
    if (form == "all")
        CHECK(MPI_File_iwrite_all(file, words.data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else if (form == "at_all")
        CHECK(MPI_File_iwrite_at_all(file, at, words.data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else if (form == "own")
        CHECK(MPI_File_iwrite(file, words.data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else if (form == "at")
        CHECK(MPI_File_iwrite_at(file, at, words.data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else
        CHECK(MPI_File_iwrite_shared(file, words.data(), kWords, MPI_INT, request) == MPI_SUCCESS);
}

void start_read(int round, int which, std::vector<int>* words, MPI_Request* request) {
    const MPI_Offset at = place(round, which);
    if (form == "all")
        CHECK(MPI_File_iread_all(file, words->data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else if (form == "at_all")
        CHECK(MPI_File_iread_at_all(file, at, words->data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else if (form == "own")
        CHECK(MPI_File_iread(file, words->data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else if (form == "at")
        CHECK(MPI_File_iread_at(file, at, words->data(), kWords, MPI_INT, request) == MPI_SUCCESS);
    else
        CHECK(MPI_File_iread_shared(file, words->data(), kWords, MPI_INT, request) == MPI_SUCCESS);
}

void complete(std::vector<MPI_Request>* all) {
    std::vector<MPI_Request>& requests = *all;
    const int count = static_cast<int>(requests.size());
    std::vector<MPI_Status> statuses(requests.size());
    std::vector<int> indices(requests.size());
    int left = count, index = 0, flag = 0, done = 0;
    if (finish_by == "wait") {
        for (int i = 0; i < count; ++i) MPI_Wait(&requests[static_cast<size_t>(i)], &statuses[0]);
    } else if (finish_by == "waitall") {
        CHECK(MPI_Waitall(count, requests.data(), statuses.data()) == MPI_SUCCESS);
    } else if (finish_by == "waitany") {
        for (; left != 0; --left) MPI_Waitany(count, requests.data(), &index, &statuses[0]);
    } else if (finish_by == "waitsome") {
        for (; left > 0; left -= done)
            MPI_Waitsome(count, requests.data(), &done, indices.data(), statuses.data());
    } else if (finish_by == "testall") {
        while (!flag) MPI_Testall(count, requests.data(), &flag, statuses.data());
    } else if (finish_by == "testany") {
        for (; left != 0; left -= flag) MPI_Testany(count, requests.data(), &index, &flag, &statuses[0]);
    } else {
        for (; left > 0; left -= done)
            MPI_Testsome(count, requests.data(), &done, indices.data(), statuses.data());
    }
    for (MPI_Request request : requests) CHECK(request == MPI_REQUEST_NULL);
}

// Starts the file's requests by `start(which, &request)`, with what is beside them, and completes all.
template <class Start>
void exchange(int round, Start start) {
    const auto blocks = static_cast<size_t>(size) * kWords;
    std::vector<int> send(blocks), to_all(blocks, -1), gathered(blocks, -1);
    for (size_t i = 0; i < blocks; ++i) send[i] = rank + static_cast<int>(i) + round;
    std::vector<MPI_Request> requests;
    auto add = [&] {
        requests.push_back(MPI_REQUEST_NULL);
        return &requests.back();
    };
    auto start_to_all = [&] {
        MPI_Ialltoall(send.data(), kWords, MPI_INT, to_all.data(), kWords, MPI_INT, MPI_COMM_WORLD, add());
    };
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int token = -1;
    requests.reserve(8);
    if (beside == "message") MPI_Irecv(&token, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, add());
    if (beside == "offloaded" || beside == "message" || (beside == "late" && rank != 0)) start_to_all();
    for (int which = 0; which < kOutstanding; ++which) {
        start(which, add());
        if (beside == "offloaded" && which == 0)
            MPI_Iallgather(send.data(), kWords, MPI_INT, gathered.data(), kWords, MPI_INT, MPI_COMM_WORLD,
                           add());
    }
    if (beside == "message" && rank != 0) {
        // Rank 0 waits for all at once; the others send when all but the message is complete.
        std::vector<MPI_Request> first(requests.begin() + 1, requests.end());
        complete(&first);
        MPI_Send(&rank, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
        complete(&requests);
        if (beside == "message") MPI_Send(&rank, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
    }
    if (beside == "late" && rank == 0) {
        requests.clear();
        start_to_all();
        complete(&requests);
    }
    if (beside == "message") CHECK(token == previous);
    for (int r = 0; r < size && beside != "nothing"; ++r)
        for (int i = 0; i < kWords; ++i) {
            const auto at = static_cast<size_t>(r * kWords + i);
            CHECK(to_all[at] == r + rank * kWords + i + round);
            if (beside == "offloaded") CHECK(gathered[at] == r + i + round);
        }
}

// Which rank wrote what came from the shared pointer's place, and that each block came once, is looked at by
// rank 0.
void check_shared(const std::vector<std::vector<int>>& read, int round) {
    std::vector<int> mine(kOutstanding), all(static_cast<size_t>(size * kOutstanding));
    for (int which = 0; which < kOutstanding; ++which) {
        const std::vector<int>& words = read[static_cast<size_t>(which)];
        for (int i = 1; i < kWords; ++i) CHECK(words[static_cast<size_t>(i)] == words[0] + i);
        mine[static_cast<size_t>(which)] = words[0];
    }
    MPI_Allgather(mine.data(), kOutstanding, MPI_INT, all.data(), kOutstanding, MPI_INT, MPI_COMM_WORLD);
    for (int writer = 0; writer < size; ++writer)
        for (int which = 0; which < kOutstanding; ++which) {
            int found = 0;
            for (int value : all) found += value == word(writer, round, which, 0);
            CHECK(found == 1);
        }
}

}  // namespace

PROGRAM(file_requests) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 5);
    form = argv[2];
    finish_by = argv[3];
    beside = argv[4];
    const bool is_shared = form == "shared";
    // Two phases, in which the ranks exchange what they write and read.
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file) ==
          MPI_SUCCESS);
    MPI_Datatype every_size;
    MPI_Type_create_resized(MPI_INT, 0, static_cast<MPI_Aint>(sizeof(int)) * size, &every_size);
    MPI_Type_commit(&every_size);
    // A shared pointer needs the same view everywhere.
    if (is_shared)
        MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info);
    else
        MPI_File_set_view(file, static_cast<MPI_Offset>(sizeof(int)) * rank, MPI_INT, every_size, "native",
                          info);

    for (int round = 0; round < kRounds; ++round) {
        std::vector<std::vector<int>> written(kOutstanding), read(kOutstanding);
        for (int which = 0; which < kOutstanding; ++which) {
            for (int i = 0; i < kWords; ++i)
                written[static_cast<size_t>(which)].push_back(word(rank, round, which, i));
            read[static_cast<size_t>(which)].assign(kWords, -1);
        }
        exchange(round, [&](int which, MPI_Request* request) {
            start_write(round, which, written[static_cast<size_t>(which)], request);
        });
        MPI_Barrier(MPI_COMM_WORLD);
        const MPI_Offset back = is_shared ? place(round, 0) * size : place(round, 0);
        if (form == "all" || form == "own") MPI_File_seek(file, back, MPI_SEEK_SET);
        if (is_shared) MPI_File_seek_shared(file, back, MPI_SEEK_SET);
        exchange(round, [&](int which, MPI_Request* request) {
            start_read(round, which, &read[static_cast<size_t>(which)], request);
        });
        if (is_shared)
            check_shared(read, round);
        else
            CHECK(read == written);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&file);
    MPI_Type_free(&every_size);
    MPI_Info_free(&info);
    return finish("file_requests");
}
