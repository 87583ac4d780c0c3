// The MPI's own functions that not every MPI has, declared whatever its mpi.h says: large counts came with
// MPI 4.0 (but not to Open MPI), persistent collectives likewise (Open MPI 4 has them under MPIX_ names).
// Null where the MPI lacks one.
#pragma once

#include <mpi.h>

#include "mpi/native.h"

namespace longshore::mpi {

// The types of a family's functions, given that of the blocking one.
template <class Blocking>
struct FormTypes;
template <class... Arguments>
struct FormTypes<int(Arguments...)> {
    using Nonblocking = int(Arguments..., MPI_Request*);
    using Persistent = int(Arguments..., MPI_Info, MPI_Request*);
};

}  // namespace longshore::mpi

extern "C" {

#define WEAK __attribute__((weak))

int PMPI_Alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) WEAK;
int PMPI_Alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm) WEAK;
int PMPI_Alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) WEAK;
int PMPI_Allgather_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) WEAK;
int PMPI_Allgatherv_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                      const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                      MPI_Comm comm) WEAK;
int PMPI_Bcast_c(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) WEAK;
int PMPI_Gather_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                  MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) WEAK;
int PMPI_Gatherv_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, int root,
                   MPI_Comm comm) WEAK;
int PMPI_Scatter_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) WEAK;
int PMPI_Scatterv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
                    MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                    int root, MPI_Comm comm) WEAK;

#define DECLARE(Name, name)                                                                     \
    longshore::mpi::FormTypes<decltype(PMPI_##Name##_c)>::Nonblocking PMPI_I##name##_c WEAK;    \
    longshore::mpi::FormTypes<decltype(PMPI_##Name##_c)>::Persistent PMPI_##Name##_init_c WEAK; \
    longshore::mpi::FormTypes<decltype(PMPI_##Name)>::Persistent PMPI_##Name##_init WEAK;       \
    longshore::mpi::FormTypes<decltype(PMPI_##Name)>::Persistent PMPIX_##Name##_init WEAK;
DECLARE(Alltoall, alltoall)
DECLARE(Alltoallv, alltoallv)
DECLARE(Alltoallw, alltoallw)
DECLARE(Allgather, allgather)
DECLARE(Allgatherv, allgatherv)
DECLARE(Bcast, bcast)
DECLARE(Gather, gather)
DECLARE(Gatherv, gatherv)
DECLARE(Scatter, scatter)
DECLARE(Scatterv, scatterv)
#undef DECLARE

int PMPI_Request_get_status_all(int count, const MPI_Request requests[], int* flag,
                                MPI_Status* statuses) WEAK;
int PMPI_Request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                                MPI_Status* status) WEAK;
int PMPI_Request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                                 MPI_Status* statuses) WEAK;
#undef WEAK

}  // extern "C"

namespace longshore::mpi {

// Whether this MPI has the function LONGSHORE_INDEX_<name>, which is `native`.
template <int index, auto native>
bool has_native() {
    return native_has(index);
}

}  // namespace longshore::mpi
