#include "mpi/calls/arriving.h"

namespace longshore::mpi {
namespace {

int size_of(MPI_Comm comm) {
    int size = 0;
    return PMPI_Comm_size(comm, &size) == MPI_SUCCESS ? size : 0;
}

bool is_root(MPI_Comm comm, int root) {
    int rank = MPI_UNDEFINED;
    return PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == root;
}

uint64_t bytes_of(int64_t count, MPI_Datatype type) {
    MPI_Count size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

// `type_of(i)`: the type of the block from rank i.
template <class TypeOf>
uint64_t bytes_of_all(Integers counts, MPI_Comm comm, TypeOf type_of) {
    uint64_t bytes = 0;
    for (int i = 0, size = size_of(comm); counts.given() && i < size; ++i)
        bytes += bytes_of(counts[i], type_of(i));
    return bytes;
}

uint64_t bytes_of_all(Integers counts, MPI_Datatype type, MPI_Comm comm) {
    return bytes_of_all(counts, comm, [type](int) { return type; });
}

}  // namespace

uint64_t arriving_uniform(const void*, int64_t, MPI_Datatype, void*, int64_t recvcount, MPI_Datatype recvtype,
                          MPI_Comm comm) {
    return static_cast<uint64_t>(size_of(comm)) * bytes_of(recvcount, recvtype);
}

uint64_t arriving_bcast(void*, int64_t count, MPI_Datatype datatype, int, MPI_Comm) {
    return bytes_of(count, datatype);
}

uint64_t arriving_alltoallv(const void*, Integers, Integers, MPI_Datatype, void*, Integers recvcounts,
                            Integers, MPI_Datatype recvtype, MPI_Comm comm) {
    return bytes_of_all(recvcounts, recvtype, comm);
}

uint64_t arriving_alltoallw(const void*, Integers, Integers, const MPI_Datatype*, void*, Integers recvcounts,
                            Integers, const MPI_Datatype recvtypes[], MPI_Comm comm) {
    return recvtypes ? bytes_of_all(recvcounts, comm, [=](int i) { return recvtypes[i]; }) : 0;
}

uint64_t arriving_allgatherv(const void*, int64_t, MPI_Datatype, void*, Integers recvcounts, Integers,
                             MPI_Datatype recvtype, MPI_Comm comm) {
    return bytes_of_all(recvcounts, recvtype, comm);
}

uint64_t arriving_gather(const void*, int64_t, MPI_Datatype, void*, int64_t recvcount, MPI_Datatype recvtype,
                         int root, MPI_Comm comm) {
    return is_root(comm, root) ? static_cast<uint64_t>(size_of(comm)) * bytes_of(recvcount, recvtype) : 0;
}

uint64_t arriving_gatherv(const void*, int64_t, MPI_Datatype, void*, Integers recvcounts, Integers,
                          MPI_Datatype recvtype, int root, MPI_Comm comm) {
    return is_root(comm, root) ? bytes_of_all(recvcounts, recvtype, comm) : 0;
}

uint64_t arriving_scatter(const void*, int64_t, MPI_Datatype, void* recvbuf, int64_t recvcount,
                          MPI_Datatype recvtype, int, MPI_Comm) {
    return recvbuf == MPI_IN_PLACE ? 0 : bytes_of(recvcount, recvtype);
}

uint64_t arriving_scatterv(const void*, Integers, Integers, MPI_Datatype, void* recvbuf, int64_t recvcount,
                           MPI_Datatype recvtype, int, MPI_Comm) {
    return recvbuf == MPI_IN_PLACE ? 0 : bytes_of(recvcount, recvtype);
}

}  // namespace longshore::mpi
