#include "bench/collectives.h"

namespace longshore::bench {

const Calls kHostCalls = {PMPI_Ialltoallv, PMPI_Ialltoall, PMPI_Iallgather, PMPI_Iallgatherv,
                          PMPI_Ibcast,     PMPI_Alltoallv, PMPI_Alltoall,   PMPI_Allgather,
                          PMPI_Allgatherv, PMPI_Bcast,     PMPI_Wait,       PMPI_Test};
const Calls kInterposedCalls = {MPI_Ialltoallv, MPI_Ialltoall, MPI_Iallgather, MPI_Iallgatherv,
                                MPI_Ibcast,     MPI_Alltoallv, MPI_Alltoall,   MPI_Allgather,
                                MPI_Allgatherv, MPI_Bcast,     MPI_Wait,       MPI_Test};

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

constexpr Collective kCollectives[] = {
    {"ialltoallv", Pattern::kEachToEach, true, ialltoallv},
    {"ialltoall", Pattern::kEachToEach, true, ialltoall},
    {"iallgather", Pattern::kEachToAll, true, iallgather},
    {"iallgatherv", Pattern::kEachToAll, true, iallgatherv},
    {"ibcast", Pattern::kOneToAll, true, ibcast},
    {"alltoallv", Pattern::kEachToEach, false, alltoallv},
    {"alltoall", Pattern::kEachToEach, false, alltoall},
    {"allgather", Pattern::kEachToAll, false, allgather},
    {"allgatherv", Pattern::kEachToAll, false, allgatherv},
    {"bcast", Pattern::kOneToAll, false, bcast},
};

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
