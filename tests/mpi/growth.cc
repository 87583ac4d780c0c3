// Communicators by the thousand: what they cost, and that nothing is left when they are gone. Looks at this
// process's heap, at the node's shared memory and at the service processes.
//      growth SERVICE_PROGRAM [cycles]
// SERVICE_PROGRAM: path of longshored, which no other job uses.
#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"

namespace {

int rank, size;
std::string service_program;

std::string link_of(const std::string& path) {
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    return length < 0 ? "" : std::string(target, static_cast<size_t>(length));
}

template <class Body>
void each_entry(const char* folder, Body body) {
    DIR* dir = opendir(folder);
    CHECK(dir);
    while (dirent* entry = readdir(dir)) body(std::string(folder) + "/" + entry->d_name);
    closedir(dir);
}

// Of one process: memory that is in use and its own.
long anonymous_bytes(const std::string& process) {
    std::ifstream file(process + "/status");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("RssAnon:", 0) == 0) return atol(line.c_str() + 8) * 1024;
    return 0;
}

struct Bytes {
    long heap = 0, shared = 0, services = 0, process = 0;

    static Bytes now() {
        Bytes bytes;
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(30'000);  // who left groups has told the supervisor, which has heard it
        bytes.heap = static_cast<long>(mallinfo2().uordblks + mallinfo2().hblkhd);
        bytes.process = anonymous_bytes("/proc/self");
        each_entry("/proc/self/fd", [&](const std::string& path) {
            struct stat about {};
            const std::string link = link_of(path);
            // Not the heap of large blocks: that is the program's.
            if (link.find("memfd:longshore") != link.npos && link.find("longshore-heap") == link.npos &&
                stat(path.c_str(), &about) == 0)
                bytes.shared += about.st_blocks * 512;
        });
        each_entry("/proc", [&](const std::string& path) {
            if (link_of(path + "/exe") == service_program) bytes.services += anonymous_bytes(path);
        });
        MPI_Barrier(MPI_COMM_WORLD);
        return bytes;
    }
    Bytes operator-(const Bytes& other) const {
        return {heap - other.heap, shared - other.shared, services - other.services, process - other.process};
    }
};

void use(MPI_Comm comm, int bytes) {
    int n = 0;
    MPI_Comm_size(comm, &n);
    std::vector<unsigned char> send(static_cast<size_t>(bytes), 1),
        recv(send.size() * static_cast<size_t>(n));
    MPI_Allgather(send.data(), bytes, MPI_BYTE, recv.data(), bytes, MPI_BYTE, comm);
}

// The MPI itself makes the same number in a way that Longshore does not see: what they cost is the MPI's.
Bytes cost_of(int count, bool seen) {
    std::vector<MPI_Comm> comms(static_cast<size_t>(count));
    const Bytes before = Bytes::now();
    for (MPI_Comm& comm : comms) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (seen)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        else
            MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    const Bytes after = Bytes::now();
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
    return after - before;
}

void measure_each() {
    constexpr int kCount = 400;                 // a node's table has room for 512
    const Bytes first = cost_of(kCount, true);  // takes the pages that later ones use again
    cost_of(kCount, false);
    const Bytes ours = cost_of(kCount, true), native = cost_of(kCount, false);
    const long heap = (ours.heap - native.heap) / kCount,
               shared = std::max(first.shared, ours.shared) / kCount;
    const long services = std::max(first.services, ours.services) / kCount, limit = 4096 + 64 * size;
    if (rank == 0)
        printf(
            "growth: a communicator of %d ranks takes %ld bytes of a rank's heap, %ld of the node's memory, "
            "%ld of its service processes; limit %ld\n",
            size, heap, shared, services, limit);
    CHECK(heap + shared + services <= limit);
}

void cycle(int cycles, int bytes) {
    for (int i = 0; i < cycles; ++i) {
        MPI_Comm comm, half;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (i % 8 == 0) use(comm, bytes);
        if (i % 16 == 0) {
            MPI_Comm_split(comm, rank % 2, 0, &half);
            use(half, bytes);
            MPI_Comm_free(&half);
        }
        MPI_Comm_free(&comm);
    }
}

}  // namespace

PROGRAM(growth) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    service_program = argc > 1 ? argv[1] : "";
    const int cycles = argc > 2 ? atoi(argv[2]) : 10'000;
    measure_each();
    cycle(cycles / 10, 100);
    const Bytes before = Bytes::now();
    cycle(cycles, 100);
    const Bytes grown = Bytes::now() - before;
    if (rank == 0)
        printf(
            "growth: %d cycles: heap %ld, process %ld, node's memory %ld, service processes %ld bytes more\n",
            cycles, grown.heap, grown.process, grown.shared, grown.services);
    CHECK(before.shared > 0 && before.services > 0);
    constexpr long kSlack = 256 << 10;  // of thousands that would each leave 4 KiB and more
    CHECK(grown.heap < kSlack && grown.process < 4 * kSlack && grown.shared < kSlack &&
          grown.services < kSlack);
    return finish("growth");
}
