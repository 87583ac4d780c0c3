// The allgather family with uneven blocks, ranks that come early and late, several calls open at once. Says
// how many bytes the ranks had to give: between nodes each should be seen once per node, which the caller
// looks up in the statistics.
#include <vector>

#include "check.h"
#include "services.h"

namespace {

int rank, size;
uint64_t payload = 0;  // of all ranks' blocks, so far

// Some empty, some that travel in a notification, some of several chunks.
int count_of(int source, int tag) {
    constexpr int kCounts[] = {70'001, 0, 513, 300'000, 1, 1024, 1025, 20'000};
    return kCounts[(source * 3 + tag) % 8];
}

void come_late(int tag) {
    if ((rank + tag) % 3 == 0) usleep(static_cast<useconds_t>(1000 * ((rank * 7 + tag) % 4)));
}

struct Allgatherv {
    int tag;
    std::vector<int> counts{}, places{};
    std::vector<unsigned char> send{}, recv{};

    void prepare() {
        int at = 0;
        for (int r = 0; r < size; ++r) {
            counts.push_back(count_of(r, tag));
            places.push_back(at);
            at += counts.back();
        }
        payload += static_cast<uint64_t>(at);
        send.resize(static_cast<size_t>(own()));
        recv.assign(static_cast<size_t>(at), 0xEE);
        fill(send.data(), send.size(), rank, 0, tag);
    }
    int own() const { return counts[static_cast<size_t>(rank)]; }
    void check() const {
        for (size_t r = 0; r < counts.size(); ++r)
            CHECK(is_filled(recv.data() + places[r], static_cast<uint64_t>(counts[r]), static_cast<int>(r), 0,
                            tag));
    }
};

void allgatherv(int tag) {
    Allgatherv first{tag}, second{tag + 1};
    first.prepare();
    second.prepare();
    come_late(tag);
    MPI_Request request;
    MPI_Iallgatherv(first.send.data(), first.own(), MPI_BYTE, first.recv.data(), first.counts.data(),
                    first.places.data(), MPI_BYTE, MPI_COMM_WORLD, &request);
    MPI_Allgatherv(second.send.data(), second.own(), MPI_BYTE, second.recv.data(), second.counts.data(),
                   second.places.data(), MPI_BYTE, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    first.check();
    second.check();
}

void allgather(int tag) {
    const int bytes = count_of(0, tag) + 1;
    const auto n = static_cast<size_t>(size), b = static_cast<size_t>(bytes);
    std::vector<unsigned char> send(b), recv(n * b, 0xEE);
    payload += n * b;
    fill(send.data(), b, rank, 0, tag);
    come_late(tag);
    MPI_Request request;
    MPI_Iallgather(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (size_t r = 0; r < n; ++r) CHECK(is_filled(recv.data() + r * b, b, static_cast<int>(r), 0, tag));
}

void bcast(int tag, int root, bool blocking) {
    const int bytes = count_of(root, tag) + 1;
    std::vector<unsigned char> data(static_cast<size_t>(bytes), 0xEE);
    payload += data.size();
    if (rank == root) fill(data.data(), data.size(), root, 0, tag);
    come_late(tag);
    MPI_Request request = MPI_REQUEST_NULL;
    if (blocking)
        MPI_Bcast(data.data(), bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    else
        MPI_Ibcast(data.data(), bytes, MPI_BYTE, root, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(is_filled(data.data(), data.size(), root, 0, tag));
}

}  // namespace

PROGRAM(crossing) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int tag = 0; tag < 8; tag += 2) allgatherv(tag);
    for (int tag = 8; tag < 14; ++tag) allgather(tag);
    for (int root = 0; root < size; ++root) bcast(14 + root, root, root % 2 == 0);
    if (rank == 0) printf("payload: %llu bytes\n", static_cast<unsigned long long>(payload));
    wait_until_services_sleep();
    return finish("crossing");
}
