// Persistent collectives: every family, started many times with other data each time, in place, with types
// that are freed after the request was made; every form of waiting, mixed with other requests, inactive and
// null ones; requests of communicators that are gone; what must not be done with an active one. With Open MPI
// 4 under its own MPIX_ names.
#include "persistent.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "kinds.h"

namespace {

int rank, size;

// One persistent call with blocks of the same size on all ranks.
class Collective {
  public:
    enum Way { kPlain, kSendHoles, kRecvHoles, kInPlace, kInPlaceHoles };

    Collective(Kind kind, Way way, int bytes, MPI_Comm comm, int root)
        : kind_(kind), in_place_(way >= kInPlace), bytes_(static_cast<size_t>(bytes)), root_(root) {
        const bool send_holes = way == kSendHoles, recv_holes = way == kRecvHoles || way == kInPlaceHoles;
        send_step_ = bytes_ + (send_holes ? kHole : 0);
        recv_step_ = bytes_ + (recv_holes ? kHole : 0);
        const auto n = static_cast<size_t>(size);
        send_.resize(n * send_step_);
        recv_.resize(n * recv_step_);
        MPI_Datatype holed = with_hole(bytes, kHole);
        const MPI_Datatype st = send_holes ? holed : MPI_BYTE, rt = recv_holes ? holed : MPI_BYTE;
        const int sc = send_holes ? 1 : bytes, rc = recv_holes ? 1 : bytes;
        scounts_.assign(n, sc), rcounts_.assign(n, rc);
        stypes_.assign(n, st), rtypes_.assign(n, rt);
        for (int r = 0; r < size; ++r) {
            splaces_.push_back(kind == kAlltoallw ? r * static_cast<int>(send_step_) : r * sc);
            rplaces_.push_back(kind == kAlltoallw ? r * static_cast<int>(recv_step_) : r * rc);
        }
        CHECK(init(sc, st, rc, rt, comm) == MPI_SUCCESS);
        MPI_Type_free(&holed);
    }
    Collective(const Collective&) = delete;
    Collective& operator=(const Collective&) = delete;

    MPI_Request request = MPI_REQUEST_NULL;

    void fill_in(int tag) {
        const bool is_root = rank == root_;
        memset(recv_.data(), 0xEE, recv_.size());
        for (int r = 0; r < size; ++r) {
            const int to = to_each(kind_) ? r : 0;
            fill(&send_[static_cast<size_t>(r) * send_step_], bytes_, rank, to, tag);
            if (in_place_ &&
                (kind_ <= kAlltoallw ||
                 ((kind_ == kAllgather || kind_ == kAllgatherv || (gathers(kind_) && is_root)) && r == rank)))
                fill(&recv_[static_cast<size_t>(r) * recv_step_], bytes_, rank, to, tag);
        }
        if (kind_ == kBcast && is_root) fill(recv_.data(), bytes_, root_, 0, tag);
        if (in_place_ && scatters(kind_) && is_root) fill(recv_.data(), bytes_, root_, rank, tag);
        tag_ = tag;
    }
    void start(int tag) {
        fill_in(tag);
        CHECK(MPI_Start(&request) == MPI_SUCCESS);
    }
    void check() {
        const int to = to_each(kind_) ? rank : 0;
        const bool one = kind_ == kBcast || scatters(kind_);
        if (gathers(kind_) && rank != root_) return;
        for (int r = 0; r < (one ? 1 : size); ++r)
            CHECK(is_filled(&recv_[static_cast<size_t>(r) * recv_step_], bytes_, one ? root_ : r, to, tag_));
        for (size_t i = bytes_; i < recv_step_; ++i) CHECK(recv_[i] == 0xEE);
    }

  private:
    static constexpr int kHole = 3;

    int init(int sc, MPI_Datatype st, int rc, MPI_Datatype rt, MPI_Comm comm) {
        const MPI_Info info = MPI_INFO_NULL;
        const bool in_place = in_place_ && (!gathers(kind_) || rank == root_) && !scatters(kind_);
        const void* from = in_place ? MPI_IN_PLACE : static_cast<const void*>(send_.data());
        void* to = in_place_ && scatters(kind_) && rank == root_ ? MPI_IN_PLACE : recv_.data();
        const int *s = scounts_.data(), *sp = splaces_.data(), *r = rcounts_.data(), *rp = rplaces_.data();
        const MPI_Datatype *sts = stypes_.data(), *rts = rtypes_.data();
        switch (kind_) {
            case kAlltoall:
                return INIT(Alltoall)(from, sc, st, to, rc, rt, comm, info, &request);
            case kAlltoallv:
                return INIT(Alltoallv)(from, s, sp, st, to, r, rp, rt, comm, info, &request);
            case kAlltoallw:
                return INIT(Alltoallw)(from, s, sp, sts, to, r, rp, rts, comm, info, &request);
            case kAllgather:
                return INIT(Allgather)(from, sc, st, to, rc, rt, comm, info, &request);
            case kAllgatherv:
                return INIT(Allgatherv)(from, sc, st, to, r, rp, rt, comm, info, &request);
            case kBcast:
                return INIT(Bcast)(to, rc, rt, root_, comm, info, &request);
            case kGather:
                return INIT(Gather)(from, sc, st, to, rc, rt, root_, comm, info, &request);
            case kGatherv:
                return INIT(Gatherv)(from, sc, st, to, r, rp, rt, root_, comm, info, &request);
            case kScatter:
                return INIT(Scatter)(from, sc, st, to, rc, rt, root_, comm, info, &request);
            default:
                return INIT(Scatterv)(from, s, sp, st, to, rc, rt, root_, comm, info, &request);
        }
    }

    Kind kind_;
    bool in_place_;
    size_t bytes_, send_step_, recv_step_;
    int root_, tag_ = 0;
    std::vector<unsigned char> send_, recv_;
    std::vector<int> scounts_, splaces_, rcounts_, rplaces_;
    std::vector<MPI_Datatype> stypes_, rtypes_;
};

// What the MPI says of a request that is not active.
void check_empty(const MPI_Status& status) {
    int count = -1, cancelled = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(count == 0 && cancelled == 0 && status.MPI_SOURCE == MPI_ANY_SOURCE &&
          status.MPI_TAG == MPI_ANY_TAG);
}

void every_family() {
    int tag = 0;
    for (int k = 0; k < kKinds; ++k)
        for (int way = Collective::kPlain; way <= Collective::kInPlaceHoles; ++way)
            for (int bytes : {50, 80'000}) {
                Collective call(static_cast<Kind>(k), static_cast<Collective::Way>(way), bytes,
                                MPI_COMM_WORLD, (k + way) % size);
                for (int round = 0; round < 3; ++round) {
                    const MPI_Request before = call.request;
                    call.start(++tag);
                    CHECK(MPI_Wait(&call.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
                    CHECK(call.request == before);
                    call.check();
                }
                CHECK(MPI_Request_free(&call.request) == MPI_SUCCESS && call.request == MPI_REQUEST_NULL);
            }
}

// Several of one communicator are open at once, and started in another order than they were made.
void order() {
    Collective first(kAllgather, Collective::kPlain, 300, MPI_COMM_WORLD, 0);
    Collective second(kAlltoall, Collective::kRecvHoles, 90'000, MPI_COMM_WORLD, 0);
    Collective third(kAllgather, Collective::kPlain, 300, MPI_COMM_WORLD, 0);
    for (int round = 0; round < 50; ++round) {
        third.start(3 * round);
        second.start(3 * round + 1);
        first.start(3 * round + 2);
        Collective* const all[] = {&first, &second, &third};
        for (int i = 0; i < 3; ++i) {
            Collective* one = all[(i + round + rank) % 3];
            CHECK(MPI_Wait(&one->request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
            one->check();
        }
    }
    for (Collective* one : {&first, &second, &third}) CHECK(MPI_Request_free(&one->request) == MPI_SUCCESS);
}

// Each rank starts in an order of its own, with nonblocking ones in between, which have theirs on all ranks:
// what belongs together is said by the order of initialization (MPI 4.0, 6.13).
void any_order() {
    constexpr int kMany = 12;  // more than a rank has places for in one group
    constexpr Kind kOther[] = {kBcast, kAllgather, kAlltoallv, kScatter};
    for (const bool alike : {true, false}) {
        std::vector<std::unique_ptr<Collective>> calls;
        for (int i = 0; i < kMany; ++i) {
            const Kind kind = alike ? kBcast : kOther[i % 4];
            const int bytes = alike ? 40'000 : 100 + 7'000 * i;
            calls.push_back(std::make_unique<Collective>(kind, Collective::kPlain, bytes, MPI_COMM_WORLD,
                                                         alike ? 0 : i % size));
        }
        std::vector<size_t> order(kMany);
        for (size_t i = 0; i < kMany; ++i) order[i] = rank % 2 == 0 ? i : kMany - 1 - i;
        std::mt19937 dice(static_cast<unsigned>(rank));
        for (int round = 0; round < 20; ++round) {
            constexpr int kBetween = 3;
            std::vector<int> got(static_cast<size_t>(kBetween * size));
            int sent[kBetween];
            MPI_Request between[kBetween];
            const auto hop = static_cast<size_t>((rank + round) % kMany);
            for (size_t i = 0, next = 0; i < kMany; ++i) {
                calls[order[i]]->start(100 * round + static_cast<int>(order[i]));
                for (; next < kBetween && (i == (hop + 4 * next) % kMany || i + kBetween >= kMany + next);
                     ++next) {
                    sent[next] = rank - round - static_cast<int>(next);
                    CHECK(MPI_Iallgather(&sent[next], 1, MPI_INT, &got[next * static_cast<size_t>(size)], 1,
                                         MPI_INT, MPI_COMM_WORLD, &between[next]) == MPI_SUCCESS);
                }
            }
            for (size_t i = 0; i < kMany; ++i) {
                Collective& one = *calls[order[kMany - 1 - i]];
                CHECK(MPI_Wait(&one.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
                one.check();
            }
            CHECK(MPI_Waitall(kBetween, between, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
            for (int i = 0; i < kBetween * size; ++i)
                CHECK(got[static_cast<size_t>(i)] == i % size - round - i / size);
            std::shuffle(order.begin(), order.end(), dice);
        }
        // All at once, on every other rank the last first.
        std::vector<MPI_Request> requests;
        for (size_t i = 0; i < kMany; ++i) {
            Collective& one = *calls[rank % 2 == 0 ? i : kMany - 1 - i];
            requests.push_back(one.request);
        }
        for (size_t i = 0; i < kMany; ++i) calls[i]->fill_in(3 + static_cast<int>(i));
        CHECK(MPI_Startall(kMany, requests.data()) == MPI_SUCCESS);
        CHECK(MPI_Waitall(kMany, requests.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        for (const auto& one : calls) {
            one->check();
            CHECK(MPI_Request_free(&one->request) == MPI_SUCCESS);
        }
    }
}

// Persistent ones of ours and of the MPI, a nonblocking collective, a null request and one that is never
// started.
struct Mix {
    static constexpr int kCount = 7, kActive = 5;
    Collective one{kAllgather, Collective::kPlain, 2000, MPI_COMM_WORLD, 0};
    Collective two{kAlltoallv, Collective::kSendHoles, 2000, MPI_COMM_WORLD, 0};
    Collective idle{kBcast, Collective::kPlain, 2000, MPI_COMM_WORLD, 0};
    MPI_Request requests[kCount];
    int sent = 0, got = -1, mine = 0;
    std::vector<int> all;

    Mix() : all(static_cast<size_t>(size)) {
        requests[0] = one.request;
        requests[1] = two.request;
        MPI_Send_init(&sent, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &requests[2]);
        MPI_Recv_init(&got, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &requests[3]);
        requests[4] = MPI_REQUEST_NULL;
        requests[5] = idle.request;
        requests[6] = MPI_REQUEST_NULL;
    }
    void start(int tag) {
        one.fill_in(tag);
        two.fill_in(tag + 1);
        sent = rank + 1000 * tag;
        got = -1;
        mine = rank - tag;
        CHECK(MPI_Startall(4, requests) == MPI_SUCCESS);
        CHECK(MPI_Iallgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD, &requests[4]) ==
              MPI_SUCCESS);
        tag_ = tag;
    }
    void check() {
        one.check();
        two.check();
        CHECK(got == (rank + size - 1) % size + 1000 * tag_);
        for (int r = 0; r < size; ++r) CHECK(all[static_cast<size_t>(r)] == r - tag_);
        CHECK(requests[0] == one.request && requests[1] == two.request && requests[4] == MPI_REQUEST_NULL);
        CHECK(requests[5] == idle.request);
    }
    void check_status(int i, const MPI_Status& status) {
        int count = -1, cancelled = -1;
        MPI_Get_count(&status, i == 2 || i == 3 ? MPI_INT : MPI_BYTE, &count);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled == 0);
        if (i == 0 || i == 1) CHECK(count == 0);
        if (i == 3) CHECK(count == 1 && status.MPI_TAG == 7);
        if (i >= 5) check_empty(status);
    }
    void free_all() {
        for (int i : {0, 1, 2, 3, 5}) CHECK(MPI_Request_free(&requests[i]) == MPI_SUCCESS);
    }

  private:
    int tag_ = 0;
};

void every_wait() {
    Mix mix;
    MPI_Status status, statuses[Mix::kCount];
    int index = -1, flag = 0, count = 0, indices[Mix::kCount], tag = 100;
    // Nothing is active.
    CHECK(MPI_Wait(&mix.requests[0], &status) == MPI_SUCCESS);
    check_empty(status);
    CHECK(MPI_Test(&mix.requests[1], &flag, &status) == MPI_SUCCESS && flag);
    check_empty(status);
    CHECK(MPI_Request_get_status(mix.requests[1], &flag, &status) == MPI_SUCCESS && flag);
    check_empty(status);
    CHECK(MPI_Waitany(Mix::kCount, mix.requests, &index, &status) == MPI_SUCCESS && index == MPI_UNDEFINED);
    CHECK(MPI_Testany(Mix::kCount, mix.requests, &index, &flag, &status) == MPI_SUCCESS && flag);
    CHECK(index == MPI_UNDEFINED);
    CHECK(MPI_Waitsome(Mix::kCount, mix.requests, &count, indices, statuses) == MPI_SUCCESS);
    CHECK(count == MPI_UNDEFINED);
    CHECK(MPI_Waitall(Mix::kCount, mix.requests, statuses) == MPI_SUCCESS);
    for (const MPI_Status& empty : statuses) check_empty(empty);

    for (int i = 4; i >= 0; --i) {
        if (i == 4) mix.start(++tag);
        CHECK(MPI_Wait(&mix.requests[i], &status) == MPI_SUCCESS);
        mix.check_status(i, status);
    }
    mix.check();
    for (bool ignore : {false, true}) {
        mix.start(++tag);
        CHECK(MPI_Waitall(Mix::kCount, mix.requests, ignore ? MPI_STATUSES_IGNORE : statuses) == MPI_SUCCESS);
        for (int i = 0; i < Mix::kCount && !ignore; ++i) mix.check_status(i, statuses[i]);
        mix.check();
        mix.start(++tag);
        for (flag = 0; !flag;)
            CHECK(MPI_Testall(Mix::kCount, mix.requests, &flag, ignore ? MPI_STATUSES_IGNORE : statuses) ==
                  MPI_SUCCESS);
        for (int i = 0; i < Mix::kCount && !ignore; ++i) mix.check_status(i, statuses[i]);
        mix.check();
    }
    for (bool test : {false, true}) {
        mix.start(++tag);
        for (int done = 0; done < Mix::kActive; ++done) {
            flag = !test;
            do {
                CHECK((test ? MPI_Testany(Mix::kCount, mix.requests, &index, &flag, &status)
                            : MPI_Waitany(Mix::kCount, mix.requests, &index, &status)) == MPI_SUCCESS);
            } while (!flag);
            CHECK(index >= 0 && index < 5);
            mix.check_status(index, status);
        }
        mix.check();
        mix.start(++tag);
        for (int done = 0; done < Mix::kActive; done += count) {
            CHECK((test ? MPI_Testsome(Mix::kCount, mix.requests, &count, indices, statuses)
                        : MPI_Waitsome(Mix::kCount, mix.requests, &count, indices, statuses)) == MPI_SUCCESS);
            CHECK(count >= (test ? 0 : 1));
            for (int i = 0; i < count; ++i) mix.check_status(indices[i], statuses[i]);
        }
        mix.check();
    }
    mix.start(++tag);
    for (int i = 0; i < 5; ++i) {
        for (flag = 0; !flag;) CHECK(MPI_Request_get_status(mix.requests[i], &flag, &status) == MPI_SUCCESS);
        mix.check_status(i, status);
        // It is still to be completed. (For MPICH 5 a receive of its own is inactive by then.)
        for (flag = 0; !flag;) CHECK(MPI_Test(&mix.requests[i], &flag, &status) == MPI_SUCCESS);
        if (i != 3) mix.check_status(i, status);
    }
    mix.check();
    mix.free_all();
}

// Freed before it was ever started, while the communicator is gone, and in another order than made.
void life() {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Collective never(kGather, Collective::kPlain, 60, comm, 0);
    Collective orphan(kAlltoall, Collective::kInPlaceHoles, 60'000, comm, 0);
    orphan.start(1);
    MPI_Comm_free(&comm);
    CHECK(MPI_Wait(&orphan.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    orphan.check();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Collective other(kAllgatherv, Collective::kPlain, 60'000, comm, 0);
    orphan.start(2);
    other.start(3);
    CHECK(MPI_Wait(&other.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Wait(&orphan.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    other.check();
    orphan.check();
    CHECK(MPI_Request_free(&orphan.request) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&never.request) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&other.request) == MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

void many() {
    constexpr int kMany = 100;
    std::vector<MPI_Request> requests(kMany);
    std::vector<int> sent(kMany), got(static_cast<size_t>(kMany * size));
    for (size_t i = 0; i < kMany; ++i)
        CHECK(INIT(Allgather)(&sent[i], 1, MPI_INT, &got[i * static_cast<size_t>(size)], 1, MPI_INT,
                              MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]) == MPI_SUCCESS);
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < kMany; ++i) sent[static_cast<size_t>(i)] = rank * 1000 + i + round;
        CHECK(MPI_Startall(kMany, requests.data()) == MPI_SUCCESS);
        CHECK(MPI_Waitall(kMany, requests.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        for (int i = 0; i < kMany; ++i)
            for (int r = 0; r < size; ++r)
                CHECK(got[static_cast<size_t>(i * size + r)] == r * 1000 + i + round);
    }
    for (MPI_Request& request : requests) CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
}

void wrong_uses() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    Collective call(kAllgather, Collective::kPlain, 100'000, MPI_COMM_WORLD, 0);
    call.fill_in(5);
    // The last rank is not there yet, so the others' are active for certain.
    if (rank != size - 1) {
        CHECK(MPI_Start(&call.request) == MPI_SUCCESS);
        CHECK(class_of(MPI_Start(&call.request)) == MPI_ERR_REQUEST);
        CHECK(class_of(MPI_Request_free(&call.request)) == MPI_ERR_REQUEST);
        CHECK(class_of(MPI_Cancel(&call.request)) == MPI_ERR_REQUEST);
        int flag = 1;
        CHECK(MPI_Test(&call.request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) CHECK(MPI_Start(&call.request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&call.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    call.check();
    CHECK(MPI_Request_free(&call.request) == MPI_SUCCESS);
    // As the MPI itself.
    MPI_Request request = MPI_REQUEST_NULL;
    int in = 0;
    std::vector<int> out(static_cast<size_t>(size));
    const int ours =
        INIT(Allgather)(&in, -1, MPI_INT, out.data(), 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    CHECK(class_of(ours) == MPI_ERR_COUNT);
    CHECK(class_of(ours) == class_of(NATIVE_INIT(Allgather)(&in, -1, MPI_INT, out.data(), 1, MPI_INT,
                                                            MPI_COMM_WORLD, MPI_INFO_NULL, &request)));
}

// Waits that the shim does not see, where the MPI's progress engine polls it.
void unseen() {
#ifdef OPEN_MPI
    Collective call(kAlltoall, Collective::kRecvHoles, 70'000, MPI_COMM_WORLD, 0);
    for (int round = 0; round < 5; ++round) {
        call.start(round);
        CHECK(PMPI_Wait(&call.request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        call.check();
    }
    CHECK(MPI_Request_free(&call.request) == MPI_SUCCESS);
#endif
}

}  // namespace

PROGRAM(persistent) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) {
        every_family();
        order();
        any_order();
        every_wait();
        life();
        many();
        unseen();
        wrong_uses();
    }
    return finish("persistent");
}
