// Counts, displacements and types that the program overwrites and frees as soon as a nonblocking v-call, or
// the initialization of a persistent one, has returned. The standard forbids it, and programs do it.
#include <cstring>
#include <deque>
#include <vector>

#include "check.h"
#include "persistent.h"

namespace {

constexpr int kUnit = 20, kGap = 4;  // bytes of an element; those after it that nobody sends
int rank, size;

enum Kind { kAlltoallv, kAlltoallw, kAllgatherv, kGatherv, kScatterv, kKinds };

// An array of the program's, one number for each rank, that is gone when it is left.
template <class Number>
class Array {
  public:
    Array() : numbers_(static_cast<Number*>(malloc(static_cast<size_t>(size) * sizeof(Number)))) {}
    ~Array() {
        memset(static_cast<void*>(numbers_), 0x55, static_cast<size_t>(size) * sizeof(Number));
        free(numbers_);
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    Number& operator[](int i) { return numbers_[i]; }
    operator Number*() { return numbers_; }

  private:
    Number* numbers_;
};

class Call {
  public:
    Call(Kind kind, bool gaps, bool in_place, int seed)
        : kind_(kind),
          step_(kUnit + (gaps ? kGap : 0)),
          in_place_(in_place && kind <= kAllgatherv),
          root_(seed % size),
          seed_(seed),
          send_(room(), 0xEE),
          recv_(room(), 0xEE) {}

    MPI_Request request = MPI_REQUEST_NULL;

    void fill_in(int tag) {
        tag_ = tag;
        recv_.assign(room(), 0xEE);
        for (int r = 0; r < size; ++r) {
            put(&send_, send_place(r), sent_to(r), rank, kind_ == kAllgatherv || kind_ == kGatherv ? 0 : r);
            if (in_place_ && (kind_ != kAllgatherv || r == rank))
                put(&recv_, r, sent_to(r), rank, kind_ == kAllgatherv ? 0 : r);
        }
    }

    // The arrays live as long as this call.
    template <bool persistent>
    void post(MPI_Comm comm, MPI_Datatype unit) {
        Array<int> scounts, splaces, rcounts, rplaces;
        Array<MPI_Datatype> stypes, rtypes;
        for (int r = 0; r < size; ++r) {
            const int scale = kind_ == kAlltoallw ? step_ : 1;
            scounts[r] = sent_to(r), rcounts[r] = received_from(r);
            splaces[r] = r * kMost * scale, rplaces[r] = r * kMost * scale;
            stypes[r] = rtypes[r] = unit;
        }
        void *s = in_place_ ? MPI_IN_PLACE : send_.data(), *d = recv_.data();
        const int sent = sent_to(0), got = received_from(root_);
#define POST(Name, name, ...)                                                         \
    if constexpr (persistent)                                                         \
        CHECK(INIT(Name)(__VA_ARGS__, comm, MPI_INFO_NULL, &request) == MPI_SUCCESS); \
    else                                                                              \
        CHECK(MPI_I##name(__VA_ARGS__, comm, &request) == MPI_SUCCESS);               \
    break
        switch (kind_) {
            case kAlltoallv:
                POST(Alltoallv, alltoallv, s, scounts, splaces, unit, d, rcounts, rplaces, unit);
            case kAlltoallw:
                POST(Alltoallw, alltoallw, s, scounts, splaces, stypes, d, rcounts, rplaces, rtypes);
            case kAllgatherv:
                POST(Allgatherv, allgatherv, s, sent, unit, d, rcounts, rplaces, unit);
            case kGatherv:
                POST(Gatherv, gatherv, s, sent, unit, d, rcounts, rplaces, unit, root_);
            default:
                POST(Scatterv, scatterv, s, scounts, splaces, unit, d, got, unit, root_);
        }
    }

    void check() {
        std::vector<unsigned char> expected(room(), 0xEE);
        const bool takes = kind_ != kGatherv || rank == root_;
        for (int r = 0; takes && r < size; ++r) {
            if (kind_ == kScatterv && r != root_) continue;
            const int to = kind_ == kAllgatherv || kind_ == kGatherv ? 0 : rank;
            put(&expected, kind_ == kScatterv ? 0 : r, received_from(r), r, to);
        }
        CHECK(recv_ == expected);
    }

  private:
    static constexpr int kMost = 400;  // elements of a block

    size_t room() const {
        return static_cast<size_t>(size * kMost * step_);
    }
    // In place what a pair of ranks sends one another is of one size.
    int words(int from, int to) const {
        if (kind_ == kAllgatherv || kind_ == kGatherv) to = 0;
        return in_place_ && kind_ != kAllgatherv ? (seed_ * 7 + from * to * 31 + from + to) % kMost
                                                 : (seed_ * 7 + from * 131 + to * 57) % kMost;
    }
    int sent_to(int r) const {
        return words(rank, r);
    }
    int received_from(int r) const {
        return words(r, rank);
    }
    int send_place(int r) const {
        return kind_ == kAllgatherv || kind_ == kGatherv ? 0 : r;
    }

    void put(std::vector<unsigned char>* buffer, int block, int elements, int from, int to) const {
        for (int i = 0; i < elements; ++i)
            fill(buffer->data() + static_cast<size_t>((block * kMost + i) * step_), kUnit, from, to,
                 tag_ + i);
    }

    Kind kind_;
    int step_;
    bool in_place_;
    int root_, seed_, tag_ = 0;
    std::vector<unsigned char> send_, recv_;
};

// Many are open at once, so that the last of them wait for the first.
void nonblocking(MPI_Datatype dense, MPI_Datatype gaps, MPI_Comm comm) {
    constexpr int kCalls = 1000, kAtOnce = 100;
    for (int done = 0; done < kCalls; done += kAtOnce) {
        std::deque<Call> calls;
        std::vector<MPI_Request> requests;
        for (int i = done; i < done + kAtOnce; ++i) {
            const bool with_gaps = i / kKinds % 2;
            Call& call = calls.emplace_back(static_cast<Kind>(i % kKinds), with_gaps, i / 10 % 3 == 0, i);
            call.fill_in(i);
            call.post<false>(comm, with_gaps ? gaps : dense);
            requests.push_back(call.request);
        }
        if (rank == 0) usleep(1000);
        MPI_Waitall(kAtOnce, requests.data(), MPI_STATUSES_IGNORE);
        for (Call& call : calls) call.check();
    }
}

void persistent(MPI_Datatype dense, MPI_Datatype gaps, MPI_Comm comm) {
    std::deque<Call> calls;
    for (int i = 0; i < 12 * kKinds; ++i) {
        const bool with_gaps = i / kKinds % 2;
        calls.emplace_back(static_cast<Kind>(i % kKinds), with_gaps, i / 10 % 3 == 0, i)
            .post<true>(comm, with_gaps ? gaps : dense);
    }
    for (int start = 0; start < 3; ++start) {
        for (Call& call : calls) {
            call.fill_in(start);
            MPI_Start(&call.request);
        }
        for (Call& call : calls) {
            MPI_Wait(&call.request, MPI_STATUS_IGNORE);
            call.check();
        }
    }
    for (Call& call : calls) MPI_Request_free(&call.request);
}

}  // namespace

PROGRAM(arrays) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Datatype dense = with_hole(kUnit, 0), gaps = with_hole(kUnit, kGap);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    nonblocking(dense, gaps, comm);
    persistent(dense, gaps, comm);
    MPI_Comm_free(&comm);
    MPI_Type_free(&dense);
    MPI_Type_free(&gaps);
    return finish("arrays");
}
