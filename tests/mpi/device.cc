// Buffers in the memory of a device, which the CPU cannot read or write: in every family and form of call,
// sent, received and both, on all ranks or on one alone, dense and with holes, by a stand-in for the device
// runtime that is loaded after MPI_Init. And copies that fail: their rank gets an error, all who need its
// data get one, and the next call works.
//      device LIBRARY              all of it
//      device LIBRARY NUMBER       of the family of that number alone (kinds.h)
//      device LIBRARY count        three calls, for a test that looks into the statistics what was packed
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "device_runtime.h"
#include "forms.h"

namespace {

constexpr int kHole = 5;
constexpr unsigned char kUntouched = 0xEE;
constexpr size_t kBytesMax = 300'003;

int rank, size;
MPI_Comm comm;
const device_runtime* runtime;

// Of the host or of the device, by the same functions.
class Buffer {
  public:
    Buffer(bool device, int turn) : device_(device) {
        static std::vector<unsigned char> host[2];
        static void* places[2][3];
        const size_t bytes = static_cast<size_t>(size) * (kBytesMax + 2 * kHole);
        const int kind = turn % 3;
        const int side = turns_++ % 2;
        if (!device) {
            host[side].resize(bytes);
            at_ = host[side].data();
            return;
        }
        void*& place = places[side][kind];
        if (!place) place = runtime->allocate(bytes, static_cast<device_kind>(kind), nullptr);
        at_ = static_cast<unsigned char*>(place) + 2;  // not the beginning of the allocation
    }
    void* get() const { return at_; }
    void write(const std::vector<unsigned char>& bytes) const {
        if (device_)
            runtime->write(at_, bytes.data(), bytes.size());
        else
            memcpy(at_, bytes.data(), bytes.size());
    }
    std::vector<unsigned char> read(size_t bytes) const {
        std::vector<unsigned char> out(bytes);
        if (device_)
            runtime->read(out.data(), at_, bytes);
        else
            memcpy(out.data(), at_, bytes);
        return out;
    }

  private:
    static inline int turns_ = 0;
    bool device_;
    unsigned char* at_;
};

// What one rank does in a call of which all ranks know the family, the form, the bytes of a block and the
// root.
struct Mine {
    bool device_send = false, device_recv = false;
    bool holed_send = false, holed_recv = false;
    bool in_place = false;
    int turn = 0;  // which kind of device memory
    device_failure pack_fails = DEVICE_WORKS, unpack_fails = DEVICE_WORKS;
};

bool is_read(Kind kind, int root) {
    return !(kind == kBcast || scatters(kind)) || rank == root;
}
bool is_written(Kind kind, int root) {
    return kind == kBcast ? rank != root : !gathers(kind) || rank == root;
}
int blocks_received(Kind kind) {
    return kind == kBcast || scatters(kind) ? 1 : size;
}

// The class of the error. `good`: whether the receive buffer is as it has to be, holes and all.
int call(Kind kind, Form form, int bytes, int root, const Mine& mine, int tag, bool* good) {
    const auto n = static_cast<size_t>(size);
    const bool in_place =
        mine.in_place && kind != kBcast && !((gathers(kind) || scatters(kind)) && rank != root);
    const bool nothing_received = scatters(kind) && in_place;
    const int send_step = bytes + (mine.holed_send ? kHole : 0),
              recv_step = bytes + (mine.holed_recv ? kHole : 0);
    const MPI_Datatype holed = with_hole(bytes, kHole);
    const MPI_Datatype st = mine.holed_send ? holed : MPI_BYTE, rt = mine.holed_recv ? holed : MPI_BYTE;
    const int sc = mine.holed_send ? 1 : bytes, rc = mine.holed_recv ? 1 : bytes;
    const Buffer send(mine.device_send, mine.turn), recv(mine.device_recv, mine.turn + 1);
    const auto length = static_cast<uint64_t>(bytes);

    std::vector<unsigned char> out(n * static_cast<size_t>(send_step), 0x33),
        in(n * static_cast<size_t>(recv_step), kUntouched);
    const auto fill_block = [&](std::vector<unsigned char>& into, int step, int block, int to, int now) {
        fill(into.data() + static_cast<size_t>(block) * static_cast<size_t>(step), length, rank, to, now);
    };
    const auto fill_both = [&](int now) {
        std::fill(in.begin(), in.end(), kUntouched);
        for (int r = 0; r < size; ++r) fill_block(out, send_step, r, to_each(kind) ? r : 0, now);
        if (kind == kBcast && rank == root) fill_block(in, recv_step, 0, 0, now);
        if (in_place && to_each(kind) && !scatters(kind))
            for (int r = 0; r < size; ++r) fill_block(in, recv_step, r, r, now);
        else if (in_place && !scatters(kind))
            fill_block(in, recv_step, rank, 0, now);
        send.write(out);
        recv.write(in);
    };
    fill_both(tag);

    const Blocks send_blocks(size, sc, st, send_step), recv_blocks(size, rc, rt, recv_step);
    const void* from = in_place && !scatters(kind) ? MPI_IN_PLACE : static_cast<const void*>(send.get());
    void* to = nothing_received ? MPI_IN_PLACE : recv.get();
    MPI_Request q = MPI_REQUEST_NULL;
    const bool packs =
        is_read(kind, root) &&
        ((in_place && !scatters(kind)) || kind == kBcast ? mine.device_recv : mine.device_send);
    const int before = runtime->copies();
    if (mine.pack_fails) runtime->fail_next(mine.pack_fails);
    int e = make_call(kind, form, from, send_blocks, to, recv_blocks, root, comm, &q);
    if (form == kPersistent) {
        // Its data are read at each start.
        CHECK(e == MPI_SUCCESS);
        CHECK(!packs || runtime->copies() == before);
        for (int start = 0; start < 2 && e == MPI_SUCCESS; ++start) {
            fill_both(tag + start);
            CHECK(MPI_Start(&q) == MPI_SUCCESS);
            if (mine.unpack_fails && start == 0) runtime->fail_next(mine.unpack_fails);
            e = MPI_Wait(&q, MPI_STATUS_IGNORE);
            // The others start it again, too.
            if (e != MPI_SUCCESS && start == 0) {
                fill_both(tag + 1);
                CHECK(MPI_Start(&q) == MPI_SUCCESS);
                MPI_Wait(&q, MPI_STATUS_IGNORE);
            }
        }
        ++tag;
        CHECK(MPI_Request_free(&q) == MPI_SUCCESS);
    } else if (form == kNonblocking) {
        CHECK(e == MPI_SUCCESS);
        CHECK(!packs || mine.pack_fails || runtime->copies() > before);
        if (mine.unpack_fails) runtime->fail_next(mine.unpack_fails);
        if (tag % 2) {
            e = MPI_Wait(&q, MPI_STATUS_IGNORE);
        } else {
            for (int done = 0; !done;) e = MPI_Test(&q, &done, MPI_STATUS_IGNORE);
        }
        CHECK(q == MPI_REQUEST_NULL);
    }
    runtime->fail_next(DEVICE_WORKS);
    MPI_Datatype gone = holed;
    MPI_Type_free(&gone);

    std::vector<unsigned char> expected = in;
    if (is_written(kind, root) && !nothing_received)
        for (int b = 0; b < blocks_received(kind); ++b)
            fill(expected.data() + static_cast<size_t>(b) * static_cast<size_t>(recv_step), length,
                 kind == kBcast || scatters(kind) ? root : b, to_each(kind) ? rank : 0, tag);
    *good = recv.read(in.size()) == expected;
    return class_of(e);
}

// Who has which side in device memory.
enum Side { kSend, kRecv, kBoth, kSides };
enum Who { kAll, kFirst, kLast, kWho };

void family(Kind kind) {
    int tag = 0;
    for (int form = 0; form < kForms; ++form)
        for (int side = 0; side < kSides; ++side)
            for (int who = 0; who < kWho; ++who)
                for (int holed = 0; holed < 2; ++holed)
                    for (bool in_place : {false, true}) {
                        tag += 2;
                        const int turn = tag / 2;
                        if (in_place && side == kSend && !scatters(kind))
                            continue;  // nothing is sent from there
                        const bool mine = who == kAll || rank == (who == kFirst ? 0 : size - 1);
                        Mine m;
                        m.device_send = mine && side != kRecv;
                        m.device_recv = mine && side != kSend;
                        // In the middle of a job some ranks have holes and others do not.
                        m.holed_send = holed && (who != kAll || rank % 2 == 0);
                        m.holed_recv = holed && (who != kAll || rank % 2 == 1 || in_place);
                        m.in_place = in_place;
                        m.turn = turn;
                        // Within a notification, more than a chunk.
                        const int bytes = (turn / 3) % 2 ? 75 : static_cast<int>(kBytesMax);
                        const int root = who == kLast ? size - 1 : turn % size;
                        bool good = false;
                        const int error = call(kind, static_cast<Form>(form), bytes, root, m, tag, &good);
                        if (error != MPI_SUCCESS || !good)
                            fprintf(
                                stderr,
                                "rank %d: kind %d form %d side %d who %d holed %d in place %d: error %d\n",
                                rank, kind, form, side, who, holed, in_place, error);
                        CHECK(error == MPI_SUCCESS && good);
                    }
}

// HIP's query fails for host memory, as every look at such a buffer does. The program is not to see that.
void check_last_error(void* library) {
    if (auto last_error = reinterpret_cast<int (*)()>(dlsym(library, "hipGetLastError")))
        CHECK(last_error() == 0);
}

// One rank's device fails while it packs, or while it unpacks.
void failing(Kind kind, Form form, int bytes, int loser, bool packing, bool in_place, int turn) {
    // So that the loser sends, or receives.
    const bool at_root = packing ? kind == kBcast || scatters(kind) || in_place : gathers(kind);
    const int root = at_root ? loser : (loser + 1) % size;
    Mine m;
    m.in_place = in_place;
    m.turn = turn;
    m.holed_send = m.holed_recv = turn % 2;
    if (rank == loser) {
        const device_failure how = (turn / 2) % 2 ? DEVICE_REFUSES : DEVICE_FAILS_LATER;
        m.device_send = packing;
        m.device_recv = !packing || in_place || kind == kBcast;
        (packing ? m.pack_fails : m.unpack_fails) = how;
    }
    // A blocking call packs, too, before it unpacks: the failure has to be that of the unpacking.
    if (!packing && rank == loser && form == kBlocking) m.pack_fails = m.unpack_fails;
    bool good = false;
    const int error = call(kind, form, bytes, root, m, 7, &good);
    const bool needs_it = gathers(kind)                      ? rank == root
                          : kind == kBcast || scatters(kind) ? loser == root
                                                             : true;
    const bool fails = rank == loser || (packing && needs_it);
    // Who only sends to it may get an error.
    const bool may_fail = packing && gathers(kind) && loser == root;
    if ((error != MPI_SUCCESS) != fails && !may_fail)
        fprintf(stderr, "rank %d: kind %d form %d bytes %d loser %d packing %d in place %d: error %d\n", rank,
                kind, form, bytes, loser, packing, in_place, error);
    CHECK((error != MPI_SUCCESS) == fails || may_fail);
    CHECK(!fails || error != MPI_SUCCESS);
    if (rank == loser) CHECK(error == MPI_ERR_OTHER);
    if (!fails && !packing) CHECK(good);
    m.pack_fails = m.unpack_fails = DEVICE_WORKS;
    const int next = call(kind, form, bytes, root, m, 9, &good);
    if (next != MPI_SUCCESS || !good)
        fprintf(stderr, "rank %d: kind %d form %d bytes %d after a failure: error %d\n", rank, kind, form,
                bytes, next);
    CHECK(next == MPI_SUCCESS && good);
}

void failures(Kind kind) {
    int turn = 0;
    for (int loser : {0, size - 1})
        for (int form = 0; form < kForms; ++form)
            for (int bytes : {75, 300'003})
                for (bool packing : {true, false})
                    for (bool in_place : {false, true}) {
                        if (in_place && (!packing || kind == kBcast || scatters(kind))) continue;
                        failing(kind, static_cast<Form>(form), bytes, loser, packing, in_place, turn++);
                    }
}

int value(int from, int i) {
    return from * 1000 + i;
}

// Elements that interleave: each rank's block is a column of a matrix on the device.
void columns() {
    constexpr int kRows = 37;
    const auto n = static_cast<size_t>(size), all = n * kRows;
    MPI_Datatype one, column;
    MPI_Type_vector(kRows, 1, size, MPI_INT, &one);
    MPI_Type_create_resized(one, 0, sizeof(int), &column);
    MPI_Type_commit(&column);
    auto* send = static_cast<int*>(runtime->allocate(kRows * sizeof(int), DEVICE_OF_CONTEXT, nullptr));
    auto* recv = static_cast<int*>(runtime->allocate(all * sizeof(int), DEVICE_OF_CONTEXT, nullptr));
    std::vector<int> mine(kRows), got(all);
    for (int i = 0; i < kRows; ++i) mine[static_cast<size_t>(i)] = value(rank, i);
    runtime->write(send, mine.data(), kRows * sizeof(int));
    CHECK(MPI_Allgather(send, kRows, MPI_INT, recv, 1, column, comm) == MPI_SUCCESS);
    runtime->read(got.data(), recv, all * sizeof(int));
    for (int r = 0; r < size; ++r)
        for (int i = 0; i < kRows; ++i) CHECK(got[static_cast<size_t>(i * size + r)] == value(r, i));
    // And back: rank 0 sends each its column.
    CHECK(MPI_Scatter(recv, 1, column, send, kRows, MPI_INT, 0, comm) == MPI_SUCCESS);
    runtime->read(mine.data(), send, kRows * sizeof(int));
    for (int i = 0; i < kRows; ++i) CHECK(mine[static_cast<size_t>(i)] == value(rank, i));
    MPI_Type_free(&one);
    MPI_Type_free(&column);
}

// The program, or a kernel, writes into the holes between elements that are being received.
void holes_change() {
    constexpr int kBytes = 20'000;
    const auto step = static_cast<size_t>(kBytes + kHole), whole = step * static_cast<size_t>(size);
    MPI_Datatype holed = with_hole(kBytes, kHole);
    std::vector<unsigned char> send(kBytes), hole(kHole, 0x77), got(whole, kUntouched);
    fill(send.data(), kBytes, rank, 0, 3);
    auto* recv = static_cast<unsigned char*>(runtime->allocate(whole, DEVICE_OF_CONTEXT, nullptr));
    runtime->write(recv, got.data(), whole);
    MPI_Request request;
    CHECK(MPI_Iallgather(send.data(), kBytes, MPI_BYTE, recv, 1, holed, comm, &request) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r)
        runtime->write(recv + static_cast<size_t>(r) * step + kBytes, hole.data(), hole.size());
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    runtime->read(got.data(), recv, whole);
    for (int r = 0; r < size; ++r) {
        const unsigned char* block = got.data() + static_cast<size_t>(r) * step;
        CHECK(is_filled(block, kBytes, r, 0, 3) && memcmp(block + kBytes, hole.data(), hole.size()) == 0);
    }
    MPI_Type_free(&holed);
}

// Host memory that the device knows stays where it is.
void pinned() {
    constexpr size_t kBytes = 20'000;
    auto* send = static_cast<unsigned char*>(runtime->allocate(kBytes, DEVICE_PINNED, nullptr));
    auto* recv = static_cast<unsigned char*>(
        runtime->allocate(kBytes * static_cast<size_t>(size), DEVICE_PINNED, nullptr));
    fill(send, kBytes, rank, 0, 4);
    const int before = runtime->copies();
    CHECK(MPI_Allgather(send, kBytes, MPI_BYTE, recv, kBytes, MPI_BYTE, comm) == MPI_SUCCESS);
    CHECK(runtime->copies() == before);
    for (int r = 0; r < size; ++r) CHECK(is_filled(recv + static_cast<size_t>(r) * kBytes, kBytes, r, 0, 4));
}

MPI_Datatype absolute(const std::vector<int*>& places) {
    std::vector<int> lengths(places.size(), 1);
    std::vector<MPI_Aint> addresses;
    for (int* place : places) addresses.push_back(reinterpret_cast<MPI_Aint>(place));
    MPI_Datatype type;
    MPI_Type_create_hindexed(static_cast<int>(places.size()), lengths.data(), addresses.data(), MPI_INT,
                             &type);
    MPI_Type_commit(&type);
    return type;
}

// Blocks of one call in host memory and in device memory. One block that lies in both cannot be packed.
void absolute_addresses() {
    const auto n = static_cast<size_t>(size);
    auto* device = static_cast<int*>(runtime->allocate(2 * n * sizeof(int), DEVICE_OF_POOL, nullptr));
    std::vector<int> host(2 * n, -1), ones(n, 1), none(n, 0), got(2 * n, -1);
    std::vector<MPI_Datatype> from, to;
    for (size_t r = 0; r < n; ++r) {
        const int mine = value(rank, static_cast<int>(r));
        int* source = (r % 2 ? device : host.data()) + r;
        int* target = (r % 2 ? host.data() : device) + n + r;
        if (r % 2)
            runtime->write(source, &mine, sizeof mine);
        else
            *source = mine;
        from.push_back(absolute({source}));
        to.push_back(absolute({target}));
    }
    CHECK(MPI_Alltoallw(MPI_BOTTOM, ones.data(), none.data(), from.data(), MPI_BOTTOM, ones.data(),
                        none.data(), to.data(), comm) == MPI_SUCCESS);
    runtime->read(got.data(), device, 2 * n * sizeof(int));
    for (size_t r = 0; r < n; ++r)
        CHECK((r % 2 ? host[n + r] : got[n + r]) == value(static_cast<int>(r), rank));
    for (size_t r = 0; r < n; ++r) {
        MPI_Type_free(&from[r]);
        MPI_Type_free(&to[r]);
    }
    MPI_Datatype both = absolute({host.data(), device});
    std::vector<int> all(2 * n);
    const bool mine = rank == 0;
    CHECK(class_of(MPI_Allgather(mine ? MPI_BOTTOM : host.data(), mine ? 1 : 2, mine ? both : MPI_INT,
                                 all.data(), 2, MPI_INT, comm)) != MPI_SUCCESS);
    MPI_Type_free(&both);
}

// Blocks of which the first one lies in host memory, and those behind it on the device.
void from_host_to_device() {
    constexpr size_t kPage = 4096;
    const auto n = static_cast<size_t>(size);
    const auto reserve = [&] {
        void* at = mmap(nullptr, n * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED);
        auto* bytes = static_cast<unsigned char*>(at);
        runtime->allocate((n - 1) * kPage, DEVICE_OF_CONTEXT, bytes + kPage);
        return bytes;
    };
    unsigned char *send = reserve(), *recv = reserve();
    std::vector<int> counts(n, kPage), places;
    std::vector<unsigned char> page(kPage);
    for (int r = 0; r < size; ++r) {
        places.push_back(r * static_cast<int>(kPage));
        fill(page.data(), kPage, rank, r, 5);
        if (r == 0)
            memcpy(send, page.data(), kPage);
        else
            runtime->write(send + places.back(), page.data(), kPage);
    }
    const int *c = counts.data(), *p = places.data();
    CHECK(MPI_Alltoallv(send, c, p, MPI_BYTE, recv, c, p, MPI_BYTE, comm) == MPI_SUCCESS);
    for (int r = 0; r < size; ++r) {
        if (r == 0)
            memcpy(page.data(), recv, kPage);
        else
            runtime->read(page.data(), recv + p[r], kPage);
        CHECK(is_filled(page.data(), kPage, r, rank, 5));
    }
}

// Sent from the device, received with holes in host memory: without holes on the host, nothing is packed.
void counted() {
    constexpr int kBytes = 70'000;
    Mine mine;
    bool good = false;
    CHECK(call(kAlltoall, kNonblocking, kBytes, 0, mine, 1, &good) == MPI_SUCCESS && good);
    mine.device_send = mine.holed_recv = true;
    CHECK(call(kAlltoall, kNonblocking, kBytes, 0, mine, 2, &good) == MPI_SUCCESS && good);
    // Two starts; neither side has holes.
    mine.holed_recv = false;
    CHECK(call(kAllgather, kPersistent, kBytes, 0, mine, 3, &good) == MPI_SUCCESS && good);
    if (rank == 0) printf("blocks: %d bytes\n", kBytes);
}

}  // namespace

PROGRAM(device) {
    CHECK(argc > 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size > 1);  // the MPI would serve it
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    std::vector<int> all(static_cast<size_t>(size));
    MPI_Allgather(&rank, 1, MPI_INT, all.data(), 1, MPI_INT, comm);  // before there is a device
    // Not among the global names, as CUDA's runtime loads the driver.
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    runtime = static_cast<const device_runtime*>(dlsym(library, "stand_in"));
    CHECK(runtime);
    const bool count = argc > 2 && strcmp(argv[2], "count") == 0;
    const int only = count ? kKinds : argc > 2 ? atoi(argv[2]) : -1;
    if (count) counted();
    for (int k = 0; k < kKinds; ++k)
        if (only < 0 || only == k) {
            family(static_cast<Kind>(k));
            check_last_error(library);
            failures(static_cast<Kind>(k));
            if (auto forget_error = reinterpret_cast<int (*)()>(dlsym(library, "hipGetLastError")))
                forget_error();
        }
    if (only < 0) {
        columns();
        holes_change();
        pinned();
        absolute_addresses();
        from_host_to_device();
    }
    CHECK(runtime->misuses() == 0);
    MPI_Comm_free(&comm);
    return finish("device");
}
