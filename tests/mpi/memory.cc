// Buffers of every kind, given back and taken anew while collectives run, so that addresses come to mean
// other memory: nobody may read or write what was there before.      memory SEED ROUNDS [plain|scarce] plain:
// nothing is expected to come from memory that is shared; scarce: not all of it.
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <memory>
#include <vector>

#include "base/prng.h"
#include "check.h"

namespace {

using longshore::Prng;

int rank, size;
bool plain = false;
constexpr size_t kStaticBytes = 600'000;
char static_memory[2][kStaticBytes];
bool static_used[2];

enum class Kind { kMalloc, kCalloc, kAligned, kGrown, kNew, kMapped, kMoved, kMpi, kStatic, kCount };

// One buffer; its memory goes in the way that it came.
class Buffer {
  public:
    Buffer(Kind kind, size_t bytes, Prng* prng) : kind_(kind), bytes_(bytes) {
        switch (kind) {
            case Kind::kMalloc:
                at_ = static_cast<char*>(malloc(bytes));
                break;
            case Kind::kCalloc:
                at_ = static_cast<char*>(calloc(1, bytes));
                for (size_t i = 0; i < bytes; i += 61) CHECK(at_[i] == 0);
                break;
            case Kind::kAligned: {
                void* memory = nullptr;
                const size_t alignment = size_t{16} << prng->below(14);
                CHECK(posix_memalign(&memory, alignment, bytes) == 0);
                at_ = static_cast<char*>(memory);
                CHECK(reinterpret_cast<uintptr_t>(at_) % alignment == 0);
                break;
            }
            case Kind::kGrown: {
                const size_t first = 1 + prng->below(2 * bytes);
                at_ = static_cast<char*>(malloc(first));
                memset(at_, 42, first);
                at_ = static_cast<char*>(realloc(at_, bytes));
                for (size_t i = 0; i < (first < bytes ? first : bytes); i += 61) CHECK(at_[i] == 42);
                break;
            }
            case Kind::kNew:
                at_ = new char[bytes];
                break;
            case Kind::kMapped:
            case Kind::kMoved:
                at_ = map(bytes);
                if (kind == Kind::kMoved)
                    at_ = static_cast<char*>(mremap(at_, bytes, bytes_ *= 3, MREMAP_MAYMOVE));
                CHECK(at_ != MAP_FAILED);
                break;
            case Kind::kMpi:
                CHECK(MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &at_) == MPI_SUCCESS);
                break;
            case Kind::kStatic:
                place_ = static_used[0];
                if (static_used[place_] || bytes > kStaticBytes) {
                    kind_ = Kind::kMalloc;
                    at_ = static_cast<char*>(malloc(bytes));
                } else {
                    static_used[place_] = true;
                    at_ = static_memory[place_];
                }
                break;
            case Kind::kCount:
                break;
        }
        CHECK(at_ != nullptr);
    }
    ~Buffer() {
        switch (kind_) {
            case Kind::kNew:
                delete[] at_;
                break;
            case Kind::kMapped:
            case Kind::kMoved:
                munmap(at_, bytes_);
                break;
            case Kind::kMpi:
                MPI_Free_mem(at_);
                break;
            case Kind::kStatic:
                static_used[place_] = false;
                break;
            default:
                CHECK(malloc_usable_size(at_) >= bytes_);
                free(at_);
        }
    }
    Buffer(const Buffer&) = delete;
    char* at() const { return at_; }

  private:
    static char* map(size_t bytes) {
        void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED);
        return static_cast<char*>(at);
    }
    Kind kind_;
    size_t bytes_;
    char* at_ = nullptr;
    int place_ = 0;
};

// A collective under way.
struct Call {
    int what = 0, tag = 0;
    size_t bytes = 0;  // of a block
    std::unique_ptr<Buffer> send = {}, recv = {};
    size_t send_at = 0, recv_at = 0;  // in the buffers
    MPI_Request request = MPI_REQUEST_NULL;
};
constexpr int kWhats = 4, kBcast = 3;

std::unique_ptr<Buffer> some_buffer(size_t bytes, Prng* own) {
    return std::make_unique<Buffer>(static_cast<Kind>(own->below(static_cast<uint64_t>(Kind::kCount))), bytes,
                                    own);
}

void begin(Call* call, MPI_Comm comm, Prng* own) {
    const size_t all = call->bytes * static_cast<size_t>(size);
    const bool shared = call->what != 0 && call->what != 2;  // one block, for all
    call->send_at = own->below(100);
    call->recv_at = own->below(100);
    call->send = some_buffer(call->send_at + all, own);
    call->recv = some_buffer(call->recv_at + all, own);
    char* send = call->send->at() + call->send_at;
    char* recv = call->recv->at() + call->recv_at;
    const int count = static_cast<int>(call->bytes), root = call->tag % size;
    for (int to = 0; to < size; ++to)
        fill(send + call->bytes * static_cast<size_t>(to), call->bytes, rank, shared ? 0 : to, call->tag);
    memset(recv, 0x5a, all);
    std::vector<int> counts(static_cast<size_t>(size), count), places(counts);
    for (int r = 0; r < size; ++r) places[static_cast<size_t>(r)] = r * count;
    switch (call->what) {
        case 0:
            MPI_Ialltoall(send, count, MPI_BYTE, recv, count, MPI_BYTE, comm, &call->request);
            break;
        case 1:
            MPI_Iallgather(send, count, MPI_BYTE, recv, count, MPI_BYTE, comm, &call->request);
            break;
        case 2:
            MPI_Alltoallv(send, counts.data(), places.data(), MPI_BYTE, recv, counts.data(), places.data(),
                          MPI_BYTE, comm);
            break;
        case kBcast:
            if (rank == root) memcpy(recv, send, call->bytes);
            MPI_Ibcast(recv, count, MPI_BYTE, root, comm, &call->request);
            break;
    }
}

void end(Call* call) {
    MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    const char* recv = call->recv->at() + call->recv_at;
    if (call->what == kBcast) {
        CHECK(is_filled(recv, call->bytes, call->tag % size, 0, call->tag));
        return;
    }
    for (int from = 0; from < size; ++from)
        CHECK(is_filled(recv + call->bytes * static_cast<size_t>(from), call->bytes, from,
                        call->what == 1 ? 0 : rank, call->tag));
}

// A child has what was there when it was made, and its writes are its own.
void fork_beside(Prng* own) {
    const size_t bytes = 1 + own->below(500'000);
    Buffer buffer(static_cast<Kind>(own->below(static_cast<uint64_t>(Kind::kCount))), bytes, own);
    fill(buffer.at(), bytes, rank, 1, 2);
    const pid_t child = fork();
    if (child == 0) {
        usleep(1000);
        const bool right = is_filled(buffer.at(), bytes, rank, 1, 2);
        memset(buffer.at(), 0, bytes);
        free(malloc(bytes));
        _exit(right ? 0 : 1);
    }
    CHECK(child > 0);
    memset(buffer.at(), 7, bytes);
    int status = -1;
    while (waitpid(child, &status, 0) < 0) {
    }
    CHECK(status == 0);
    for (size_t i = 0; i < bytes; ++i) CHECK(buffer.at()[i] == 7);
}

// Whether memory is of the kind that others of the node can map.
bool is_shared(const void* memory) {
    FILE* maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool shared = false;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from = 0, to = 0;
        if (sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
        const auto at = reinterpret_cast<unsigned long>(memory);
        if (at >= from && at < to) shared = strstr(line, "memfd:longshore") != nullptr;
    }
    fclose(maps);
    return shared;
}

void look_at_kinds() {
    Prng prng(1);
    for (const Kind kind : {Kind::kMalloc, Kind::kCalloc, Kind::kAligned, Kind::kNew})
        CHECK(is_shared(Buffer(kind, 100'000, &prng).at()) == !plain);
    CHECK(is_shared(Buffer(Kind::kMpi, 100, &prng).at()) == !plain);
    CHECK(!is_shared(Buffer(Kind::kMalloc, 1000, &prng).at()));
    void* many = reallocarray(nullptr, 1000, 100);
    CHECK(is_shared(many) == !plain);
    many = realloc(many, 10);
    CHECK(many && !is_shared(many));
    free(many);
    volatile size_t too_many = SIZE_MAX / 2;
    CHECK(reallocarray(nullptr, too_many, 3) == nullptr);
    void* aligned = aligned_alloc(1 << 21, 3 << 21);
    CHECK(aligned && reinterpret_cast<uintptr_t>(aligned) % (1 << 21) == 0 && is_shared(aligned) == !plain);
    free(aligned);
    free(valloc(100'000));
    free(pvalloc(100'000));
    free(memalign(4096, 100'000));
    free(realloc(nullptr, 70'000));
}

}  // namespace

PROGRAM(memory) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
    const int rounds = argc > 2 ? atoi(argv[2]) : 200;
    const char* const expected = argc > 3 ? argv[3] : "";
    plain = strcmp(expected, "plain") == 0;
    if (strcmp(expected, "scarce") != 0) look_at_kinds();

    constexpr int kOpen = 4;
    Prng same(seed), own(seed * 1000 + static_cast<uint64_t>(rank) + 7);
    MPI_Comm comms[kOpen];
    Call calls[kOpen];
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < rounds; ++round) {
        const auto i = same.below(kOpen);
        if (calls[i].send) end(&calls[i]);
        calls[i] = Call{static_cast<int>(same.below(kWhats)), round,
                        1 + same.below(same.below(4) ? 60'000 : 300'000)};
        begin(&calls[i], comms[i], &own);
        if (own.below(40) == 0) fork_beside(&own);
    }
    for (Call& call : calls)
        if (call.send) end(&call);
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
    return finish("memory");
}
