// One rank has no memory to pack its data in (malloc fails for exactly that size, and the memory that the
// shim keeps for packing is in use): it takes part all the same, gets MPI_ERR_NO_MEM, all who need its data
// get an error, and the next call works. As a hang would show otherwise, every call is made by all ranks in
// turn.
#include <algorithm>
#include <vector>

#include "forms.h"

extern "C" void* __libc_malloc(size_t bytes);

namespace {

size_t refused_bytes[2];
int refusals = 0;

int rank, size;
MPI_Comm comm;

// Takes all the memory that the shim keeps for packing, on `loser`, until let_go: broadcasts which the root
// does not enter before.
class Hold {
  public:
    explicit Hold(int loser) : loser_(loser), root_((loser + 1) % size) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        settle();
        if (rank == loser_) start();
    }
    void let_go() {
        if (rank != loser_) start();
        MPI_Waitall(kCount, requests_, MPI_STATUSES_IGNORE);
        const size_t step = rank == loser_ ? kBytes + kHole : kBytes;
        for (int i = 0; i < kCount; ++i)
            CHECK(is_filled(buffer_.data() + static_cast<size_t>(i) * step, kBytes, root_, 0, i));
        MPI_Comm_free(&comm_);
    }

  private:
    static constexpr int kCount = 4, kBytes = 16 << 20, kHole = 64;

    // What was kept for blocks that others read is given back while this rank waits; it would be room
    // otherwise.
    void settle() {
        std::vector<char> block(20'000);
        if (rank == root_) usleep(60'000);
        MPI_Bcast(block.data(), static_cast<int>(block.size()), MPI_CHAR, root_, comm_);
    }

    void start() {
        const bool packs = rank == loser_;
        const size_t step = packs ? kBytes + kHole : kBytes;
        MPI_Datatype type = packs ? with_hole(kBytes, kHole) : MPI_BYTE;
        buffer_.resize(kCount * step);
        for (int i = 0; i < kCount; ++i) {
            unsigned char* at = buffer_.data() + static_cast<size_t>(i) * step;
            if (rank == root_) fill(at, kBytes, root_, 0, i);
            MPI_Ibcast(at, packs ? 1 : kBytes, type, root_, comm_, &requests_[i]);
        }
        if (packs) MPI_Type_free(&type);
    }

    int loser_, root_;
    MPI_Comm comm_;
    std::vector<unsigned char> buffer_;
    MPI_Request requests_[kCount];
};

// Every rank gets a block of its own.
enum Lost { kNothing, kSend, kRecv, kInPlace };

// One call with blocks of `bytes`, in which this rank packs what `lost` names.
int call(Kind kind, Form form, int bytes, Lost lost, int root, std::vector<unsigned char>* recv) {
    constexpr int kHole = 3;
    MPI_Datatype holed = with_hole(bytes, kHole);
    const bool in_place = lost == kInPlace && kind != kBcast;
    const bool send_packed = lost == kSend, recv_packed = lost == kRecv || lost == kInPlace;
    const MPI_Datatype st = send_packed ? holed : MPI_BYTE, rt = recv_packed ? holed : MPI_BYTE;
    const int sc = send_packed ? 1 : bytes, rc = recv_packed ? 1 : bytes;
    const auto n = static_cast<size_t>(size), step = static_cast<size_t>(bytes + kHole);
    const int send_step = send_packed ? bytes + kHole : bytes,
              recv_step = recv_packed ? bytes + kHole : bytes;
    std::vector<unsigned char> send(n * step);
    recv->assign(n * step, 0xEE);
    for (size_t r = 0; r < n; ++r)
        fill(send.data() + r * static_cast<size_t>(send_step), static_cast<uint64_t>(bytes), rank,
             to_each(kind) ? static_cast<int>(r) : 0, 5);
    if (kind == kBcast && rank == root) fill(recv->data(), static_cast<uint64_t>(bytes), root, 0, 5);
    const Blocks send_blocks(size, sc, st, send_step), recv_blocks(size, rc, rt, recv_step);
    const void* from = in_place ? MPI_IN_PLACE : static_cast<const void*>(send.data());
    void* to = recv->data();
    MPI_Request q = MPI_REQUEST_NULL;
    int e = make_call(kind, form, from, send_blocks, to, recv_blocks, root, comm, &q);
    refused_bytes[0] = refused_bytes[1] = 0;
    if (form == kPersistent) {
        // It is lost once, for all starts.
        CHECK(e == MPI_SUCCESS && MPI_Start(&q) == MPI_SUCCESS);
        const int first = MPI_Wait(&q, MPI_STATUS_IGNORE);
        CHECK(MPI_Start(&q) == MPI_SUCCESS);
        e = MPI_Wait(&q, MPI_STATUS_IGNORE);
        if (lost != kNothing) CHECK(class_of(first) == class_of(e));
        CHECK(MPI_Request_free(&q) == MPI_SUCCESS);
    } else if (form == kNonblocking) {
        CHECK(e == MPI_SUCCESS);
        e = MPI_Wait(&q, MPI_STATUS_IGNORE);
        CHECK(q == MPI_REQUEST_NULL);
    }
    MPI_Type_free(&holed);
    return class_of(e);
}

void one(Kind kind, Form form, int bytes, Lost lost, int loser, int root) {
    std::vector<unsigned char> recv;
    const bool lose = rank == loser;
    const int before = refusals;
    if (lose) {
        refused_bytes[0] = static_cast<size_t>(bytes);
        refused_bytes[1] = static_cast<size_t>(bytes) * static_cast<size_t>(size);
    }
    const int error = call(kind, form, bytes, lose ? lost : kNothing, root, &recv);
    if (lose) CHECK(refusals == before + 1);
    if (lose) CHECK(error == MPI_ERR_NO_MEM);
    const bool needs_it = gathers(kind)                      ? rank == root
                          : kind == kBcast || scatters(kind) ? loser == root
                                                             : true;
    if (!lose && needs_it) CHECK(error != MPI_SUCCESS);
    // The next one works.
    const int next = call(kind, form, bytes, kNothing, root, &recv);
    if (next != MPI_SUCCESS)
        fprintf(stderr, "kind %d form %d, %d bytes, %d lost by %d, root %d: error class %d, then %d\n", kind,
                form, bytes, lost, loser, root, error, next);
    CHECK(next == MPI_SUCCESS);
    const bool from_all = kind < kBcast || kind == kAlltoallw || (gathers(kind) && rank == root);
    for (int r = 0; r < size && from_all; ++r)
        CHECK(is_filled(recv.data() + static_cast<size_t>(r) * static_cast<size_t>(bytes),
                        static_cast<uint64_t>(bytes), r, to_each(kind) ? rank : 0, 5));
    if (kind == kBcast || scatters(kind))
        CHECK(is_filled(recv.data(), static_cast<uint64_t>(bytes), root, to_each(kind) ? rank : 0, 5));
}

}  // namespace

// Stands in for the C library's in the whole process.
extern "C" void* malloc(size_t bytes) {
    if (bytes != 0 && (bytes == refused_bytes[0] || bytes == refused_bytes[1])) {
        ++refusals;
        return nullptr;
    }
    return __libc_malloc(bytes);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int loser : {0, size - 1}) {
        Hold hold(loser);
        for (int k = 0; k < kKinds; ++k)
            for (int bytes : {75, 300'003})  // within a notification, and more than a chunk
                for (Lost lost : {kSend, kRecv, kInPlace}) {
                    const auto kind = static_cast<Kind>(k);
                    if (kind == kBcast && lost == kSend) continue;     // its buffer is both
                    if (scatters(kind) && lost == kInPlace) continue;  // then nothing is received
                    const bool of_root = lost == kInPlace || (gathers(kind) && lost == kRecv) ||
                                         (scatters(kind) && lost == kSend);
                    const int root = of_root ? loser : (loser + 1) % size;
                    const auto form = static_cast<Form>((k + lost + (loser == 0) + (bytes == 75)) % kForms);
                    one(kind, form, bytes, lost, loser, root);
                }
        hold.let_go();
    }
    MPI_Comm_free(&comm);
    finish("no_memory");
}
