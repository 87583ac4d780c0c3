#include "bench/collectives.h"

#include <iterator>

namespace longshore::bench {

const Calls kHostCalls = {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) PMPI_I##name, PMPI_##Name,
#include "base/collectives.inc"
    PMPI_Wait, PMPI_Test};
const Calls kInterposedCalls = {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) MPI_I##name, MPI_##Name,
#include "base/collectives.inc"
    MPI_Wait, MPI_Test};

namespace {

int ialltoallv(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.ialltoallv(a.send, a.counts, a.displacements, MPI_BYTE, a.receive, a.counts, a.displacements,
                            MPI_BYTE, a.comm, request);
}
int ialltoall(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.ialltoall(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, a.comm, request);
}
int iallgather(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.iallgather(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, a.comm, request);
}
int iallgatherv(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.iallgatherv(a.send, a.count, MPI_BYTE, a.receive, a.counts, a.displacements, MPI_BYTE,
                             a.comm, request);
}
int ibcast(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.ibcast(a.receive, a.count, MPI_BYTE, 0, a.comm, request);
}
int igather(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.igather(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, 0, a.comm, request);
}
int igatherv(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.igatherv(a.send, a.counts[a.rank], MPI_BYTE, a.receive, a.counts, a.displacements, MPI_BYTE,
                          0, a.comm, request);
}
int iscatter(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.iscatter(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, 0, a.comm, request);
}
int iscatterv(const Calls& calls, const Arguments& a, MPI_Request* request) {
    return calls.iscatterv(a.send, a.counts, a.displacements, MPI_BYTE, a.receive, a.counts[a.rank], MPI_BYTE,
                           0, a.comm, request);
}
int alltoallv(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.alltoallv(a.send, a.counts, a.displacements, MPI_BYTE, a.receive, a.counts, a.displacements,
                           MPI_BYTE, a.comm);
}
int alltoall(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.alltoall(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, a.comm);
}
int allgather(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.allgather(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, a.comm);
}
int allgatherv(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.allgatherv(a.send, a.count, MPI_BYTE, a.receive, a.counts, a.displacements, MPI_BYTE,
                            a.comm);
}
int bcast(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.bcast(a.receive, a.count, MPI_BYTE, 0, a.comm);
}
int gather(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.gather(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, 0, a.comm);
}
int gatherv(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.gatherv(a.send, a.counts[a.rank], MPI_BYTE, a.receive, a.counts, a.displacements, MPI_BYTE,
                         0, a.comm);
}
int scatter(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.scatter(a.send, a.count, MPI_BYTE, a.receive, a.count, MPI_BYTE, 0, a.comm);
}
int scatterv(const Calls& calls, const Arguments& a, MPI_Request*) {
    return calls.scatterv(a.send, a.counts, a.displacements, MPI_BYTE, a.receive, a.counts[a.rank], MPI_BYTE,
                          0, a.comm);
}

constexpr Collective kCollectives[] = {
    {"ialltoallv", Pattern::kEachToEach, true, ialltoallv},
    {"ialltoall", Pattern::kEachToEach, true, ialltoall},
    {"iallgather", Pattern::kEachToAll, true, iallgather},
    {"iallgatherv", Pattern::kEachToAll, true, iallgatherv},
    {"ibcast", Pattern::kOneToAll, true, ibcast},
    {"igather", Pattern::kEachToOne, true, igather},
    {"igatherv", Pattern::kEachToOne, true, igatherv},
    {"iscatter", Pattern::kOneToEach, true, iscatter},
    {"iscatterv", Pattern::kOneToEach, true, iscatterv},
    {"alltoallv", Pattern::kEachToEach, false, alltoallv},
    {"alltoall", Pattern::kEachToEach, false, alltoall},
    {"allgather", Pattern::kEachToAll, false, allgather},
    {"allgatherv", Pattern::kEachToAll, false, allgatherv},
    {"bcast", Pattern::kOneToAll, false, bcast},
    {"gather", Pattern::kEachToOne, false, gather},
    {"gatherv", Pattern::kEachToOne, false, gatherv},
    {"scatter", Pattern::kOneToEach, false, scatter},
    {"scatterv", Pattern::kOneToEach, false, scatterv},
};
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) +2
static_assert(std::size(kCollectives) ==
#include "base/collectives.inc"
              , "each collective of the table is measured, in both forms");

}  // namespace

std::span<const Collective> collectives() {
    return kCollectives;
}

const Collective* find_collective(std::string_view name) {
    for (const Collective& collective : kCollectives)
        if (name == collective.name) return &collective;
    return nullptr;
}

}  // namespace longshore::bench
