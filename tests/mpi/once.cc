// Allgathers of large blocks, for tests that count the bytes which come to a host: in each round a blocking
// one, one that is waited for at once, and one with counts; and broadcasts. To memory that the shim shares
// and, each second round, to memory that it cannot share where it is.
//      once BYTES ROUNDS [allgather | bcast | late | test | computing-allgather | computing-bcast]
// allgather: three a round that block, and nothing else; bcast: one a round. late: ranks compute (here:
// sleep) for longer than others would wait for them, so that what they lack is moved for them. test: by
// MPI_Test alone. computing-allgather, computing-bcast: one a round, in which all ranks compute.
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kStaticBytes = size_t{8} << 20;
unsigned char static_bytes[kStaticBytes];

int rank, size;

struct Buffers {
    std::vector<unsigned char> send, own;
    unsigned char* recv = nullptr;
    Buffers(size_t block, int round) : send(block) {
        fill(send.data(), block, rank, 0, round);
        const size_t all = block * static_cast<size_t>(size);
        if (round % 2 != 0 && all <= kStaticBytes) {
            recv = static_bytes;
            memset(recv, 0, all);
        } else {
            own.resize(all);
            recv = own.data();
        }
    }
    void check(size_t block, int tag) const {
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(recv + static_cast<size_t>(r) * block, block, r, 0, tag));
    }
};

void compute(bool late, int ms = 300) {
    if (late) usleep(static_cast<useconds_t>(ms) * 1000);
}

// Two that are waited for at once, or after a computation, or that block: those of the last kind are never
// too late.
void allgathers(size_t block, int round, bool late, bool blocking) {
    const int bytes = static_cast<int>(block);
    MPI_Request request = MPI_REQUEST_NULL;
    Buffers first(block, round);
    CHECK(MPI_Allgather(first.send.data(), bytes, MPI_BYTE, first.recv, bytes, MPI_BYTE, MPI_COMM_WORLD) ==
          MPI_SUCCESS);
    first.check(block, round);
    Buffers second(block, round + 1);
    CHECK((blocking ? MPI_Allgather(second.send.data(), bytes, MPI_BYTE, second.recv, bytes, MPI_BYTE,
                                    MPI_COMM_WORLD)
                    : MPI_Iallgather(second.send.data(), bytes, MPI_BYTE, second.recv, bytes, MPI_BYTE,
                                     MPI_COMM_WORLD, &request)) == MPI_SUCCESS);
    compute(late && rank % 2 != 0);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    second.check(block, round + 1);
    Buffers third(block, round);
    std::vector<int> counts(static_cast<size_t>(size), bytes), places(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) places[static_cast<size_t>(r)] = r * bytes;
    CHECK((blocking ? MPI_Allgatherv(third.send.data(), bytes, MPI_BYTE, third.recv, counts.data(),
                                     places.data(), MPI_BYTE, MPI_COMM_WORLD)
                    : MPI_Iallgatherv(third.send.data(), bytes, MPI_BYTE, third.recv, counts.data(),
                                      places.data(), MPI_BYTE, MPI_COMM_WORLD, &request)) == MPI_SUCCESS);
    compute(late && rank % 2 == 0);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    third.check(block, round);
}

void bcast(size_t block, int round) {
    const int root = round % size;
    std::vector<unsigned char> buffer(block);
    if (rank == root) fill(buffer.data(), block, root, 0, round);
    CHECK(MPI_Bcast(buffer.data(), static_cast<int>(block), MPI_BYTE, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(is_filled(buffer.data(), block, root, 0, round));
}

void computing(size_t block, int round, bool is_bcast) {
    const int bytes = static_cast<int>(block), root = round % size;
    Buffers all(block, round);
    std::vector<unsigned char> one(is_bcast ? block : 0);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == root && is_bcast) fill(one.data(), block, root, 0, round);
    CHECK((is_bcast ? MPI_Ibcast(one.data(), bytes, MPI_BYTE, root, MPI_COMM_WORLD, &request)
                    : MPI_Iallgather(all.send.data(), bytes, MPI_BYTE, all.recv, bytes, MPI_BYTE,
                                     MPI_COMM_WORLD, &request)) == MPI_SUCCESS);
    compute(true, 150);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    if (is_bcast) CHECK(is_filled(one.data(), block, root, 0, round));
    if (!is_bcast) all.check(block, round);
}

// Two at once, of which one is waited for, and then a message between the ranks: nobody is waited for who is
// there.
void wait_for_one(size_t block, int round) {
    const int bytes = static_cast<int>(block);
    Buffers first(block, 2 * round), second(block, 2 * round + 2);
    MPI_Request requests[2];
    CHECK(MPI_Iallgather(first.send.data(), bytes, MPI_BYTE, first.recv, bytes, MPI_BYTE, MPI_COMM_WORLD,
                         &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Iallgather(second.send.data(), bytes, MPI_BYTE, second.recv, bytes, MPI_BYTE, MPI_COMM_WORLD,
                         &requests[1]) == MPI_SUCCESS);
    int token = round, which = 0;
    if (rank == 0) {
        CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        for (int r = 1; r < size; ++r)
            CHECK(MPI_Send(&token, 1, MPI_INT, r, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    } else {
        CHECK(MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        token = -1;
        CHECK(MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(token == round);
        CHECK(MPI_Wait(&requests[1 - which], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    first.check(block, 2 * round);
    second.check(block, 2 * round + 2);
}

// A program that never waits is served, too, and soon.
void test_only(size_t block, int round) {
    const int bytes = static_cast<int>(block);
    Buffers buffers(block, round);
    MPI_Request request;
    CHECK(MPI_Iallgather(buffers.send.data(), bytes, MPI_BYTE, buffers.recv, bytes, MPI_BYTE, MPI_COMM_WORLD,
                         &request) == MPI_SUCCESS);
    for (int done = 0; !done;) CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    buffers.check(block, round);
}

}  // namespace

PROGRAM(once) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const size_t block = argc > 1 ? static_cast<size_t>(atol(argv[1])) : 256 * 1024;
    const int rounds = argc > 2 ? atoi(argv[2]) : 4;
    const std::string only = argc > 3 ? argv[3] : "";
    for (int round = 0; round < rounds; ++round) {
        if (only == "test") test_only(block, round);
        const bool computes = only.rfind("computing-", 0) == 0;
        if (computes) computing(block, round, only == "computing-bcast");
        if (only != "bcast" && only != "test" && !computes)
            allgathers(block, round, only == "late", only == "allgather");
        if (only.empty() || only == "bcast") bcast(block, round);
        if (only.empty()) wait_for_one(block, round);
    }
    return finish("once");
}
