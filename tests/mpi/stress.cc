// A seeded random program: collectives of all kinds on several communicators, point-to-point, waits of all
// forms in random order, random sleeps, every byte checked. The plan is drawn from the seed alike on all
// ranks; what a rank does in between is its own.      stress [seed [steps]]
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "check.h"

namespace {

int rank, size;

struct Open {
    MPI_Comm comm;
    int kind, bytes, tag, root, comm_rank, comm_size;
    std::vector<unsigned char> send, recv;
    std::vector<int> counts, places;

    MPI_Request start() {
        MPI_Comm_rank(comm, &comm_rank);
        MPI_Comm_size(comm, &comm_size);
        root = tag % comm_size;
        const auto n = static_cast<size_t>(comm_size), b = static_cast<size_t>(bytes);
        counts.assign(n, bytes);
        for (int r = 0; r < comm_size; ++r) places.push_back(r * bytes);
        send.resize(n * b + 1);
        recv.assign(n * b + 1, 0xEE);
        const bool to_all = kind >= 2 && kind <= 6;
        for (int r = 0; r < comm_size; ++r)
            fill(send.data() + static_cast<size_t>(r) * b, b, comm_rank, to_all ? 0 : r, tag);
        if (kind == 4 && comm_rank == root) fill(recv.data(), b, root, 0, tag);
        MPI_Request request = MPI_REQUEST_NULL;
        const int *c = counts.data(), *p = places.data();
        if (kind == 0)
            MPI_Ialltoall(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, comm, &request);
        if (kind == 1)
            MPI_Ialltoallv(send.data(), c, p, MPI_BYTE, recv.data(), c, p, MPI_BYTE, comm, &request);
        if (kind == 2)
            MPI_Iallgather(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, comm, &request);
        if (kind == 3)
            MPI_Iallgatherv(send.data(), bytes, MPI_BYTE, recv.data(), c, p, MPI_BYTE, comm, &request);
        if (kind == 4) MPI_Ibcast(recv.data(), bytes, MPI_BYTE, root, comm, &request);
        if (kind == 5)
            MPI_Igather(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, root, comm, &request);
        if (kind == 6)
            MPI_Igatherv(send.data(), bytes, MPI_BYTE, recv.data(), c, p, MPI_BYTE, root, comm, &request);
        if (kind == 7)
            MPI_Iscatter(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, root, comm, &request);
        if (kind == 8)
            MPI_Iscatterv(send.data(), c, p, MPI_BYTE, recv.data(), bytes, MPI_BYTE, root, comm, &request);
        return request;
    }

    void check() const {
        const auto b = static_cast<size_t>(bytes);
        if (kind == 4) CHECK(is_filled(recv.data(), b, root, 0, tag));
        if (kind >= 7) CHECK(is_filled(recv.data(), b, root, comm_rank, tag));
        const bool from_all = kind < 4 || ((kind == 5 || kind == 6) && comm_rank == root);
        for (int r = 0; r < comm_size && from_all; ++r)
            CHECK(is_filled(recv.data() + static_cast<size_t>(r) * b, b, r, kind >= 2 ? 0 : comm_rank, tag));
        CHECK(recv.back() == 0xEE);
    }
};

// Completes some of the open calls, by a form of waiting drawn by this rank alone.
void complete_some(std::vector<std::unique_ptr<Open>>* open, std::vector<MPI_Request>* requests,
                   std::mt19937* own) {
    const int n = static_cast<int>(requests->size());
    if (n == 0) return;
    int index = MPI_UNDEFINED, count = 0, flag = 0;
    std::vector<int> indices(static_cast<size_t>(n));
    switch ((*own)() % 6) {
        case 0:
            MPI_Wait(&(*requests)[(*own)() % static_cast<unsigned>(n)], MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Waitany(n, requests->data(), &index, MPI_STATUS_IGNORE);
            break;
        case 2:
            MPI_Waitsome(n, requests->data(), &count, indices.data(), MPI_STATUSES_IGNORE);
            break;
        case 3:
            MPI_Waitall(n, requests->data(), MPI_STATUSES_IGNORE);
            break;
        case 4:
            MPI_Testany(n, requests->data(), &index, &flag, MPI_STATUS_IGNORE);
            break;
        default: {
            // MPICH 4.0.2 itself fails on more than 64 requests of several kinds whose statuses are ignored.
            std::vector<MPI_Status> statuses(static_cast<size_t>(n));
            MPI_Testall(n, requests->data(), &flag, statuses.data());
        }
    }
    for (size_t i = requests->size(); i-- > 0;) {
        if ((*requests)[i] != MPI_REQUEST_NULL) continue;
        if ((*open)[i]) (*open)[i]->check();
        requests->erase(requests->begin() + static_cast<std::ptrdiff_t>(i));
        open->erase(open->begin() + static_cast<std::ptrdiff_t>(i));
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const unsigned seed = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 1;
    const int steps = argc > 2 ? atoi(argv[2]) : 100;
    if (rank == 0) {
        printf("stress: seed %u, %d steps\n", seed, steps);
        fflush(stdout);
    }
    std::mt19937 common(seed), own(seed * 1000 + static_cast<unsigned>(rank));
    std::vector<MPI_Comm> comms = {MPI_COMM_WORLD};
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm);
    comms.push_back(comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &comm);
    comms.push_back(comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    comms.push_back(comm);

    std::vector<std::unique_ptr<Open>> open;
    std::vector<MPI_Request> requests;
    std::vector<int> tokens(static_cast<size_t>(2 * steps));
    for (int step = 0; step < steps; ++step) {
        constexpr int kSizes[] = {0, 1, 50, 1000, 5000, 70'000};
        auto call = std::make_unique<Open>();
        call->comm = comms[common() % comms.size()];
        call->kind = static_cast<int>(common() % 9);
        call->bytes = kSizes[common() % 6];
        call->tag = step;
        const bool wait_now = common() % 4 == 0, exchange = common() % 3 == 0;
        MPI_Request request = call->start();
        if (wait_now) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            call->check();
        } else {
            requests.push_back(request);
            open.push_back(std::move(call));
        }
        if (exchange) {
            const auto at = static_cast<size_t>(2 * step);
            tokens[at] = rank + step;
            MPI_Request pair[2];
            MPI_Irecv(&tokens[at + 1], 1, MPI_INT, (rank + 1) % size, step, MPI_COMM_WORLD, &pair[0]);
            MPI_Isend(&tokens[at], 1, MPI_INT, (rank + size - 1) % size, step, MPI_COMM_WORLD, &pair[1]);
            for (MPI_Request p : pair) {
                requests.push_back(p);
                open.push_back(nullptr);
            }
        }
        if (own() % 8 == 0) usleep(own() % 500);
        if (own() % 3 == 0) complete_some(&open, &requests, &own);
    }
    while (!requests.empty()) complete_some(&open, &requests, &own);
    for (size_t i = 1; i < comms.size(); ++i) MPI_Comm_free(&comms[i]);
    finish("stress");
}
