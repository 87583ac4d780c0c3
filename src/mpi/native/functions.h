// The MPI's own functions that not every MPI has, declared whatever its mpi.h says: large counts came with
// MPI 4.0 (but not to Open MPI), persistent collectives likewise (Open MPI 4 has them under MPIX_ names).
// Which of them this MPI has: native_has().
#pragma once

#include <mpi.h>

#include "mpi/native/native.h"

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

int PMPI_Alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPI_Alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm);
int PMPI_Alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);
int PMPI_Allgather_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int PMPI_Allgatherv_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                      const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                      MPI_Comm comm);
int PMPI_Bcast_c(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm);
int PMPI_Gather_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                  MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
int PMPI_Gatherv_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, int root,
                   MPI_Comm comm);
int PMPI_Scatter_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                   MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
int PMPI_Scatterv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
                    MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                    int root, MPI_Comm comm);

#define LONGSHORE_FAMILY(Name, name, arguments)                                            \
    longshore::mpi::FormTypes<decltype(PMPI_##Name##_c)>::Nonblocking PMPI_I##name##_c;    \
    longshore::mpi::FormTypes<decltype(PMPI_##Name##_c)>::Persistent PMPI_##Name##_init_c; \
    longshore::mpi::FormTypes<decltype(PMPI_##Name)>::Persistent PMPI_##Name##_init;       \
    longshore::mpi::FormTypes<decltype(PMPI_##Name)>::Persistent PMPIX_##Name##_init;
#include "mpi/native/families.inc"
#undef LONGSHORE_FAMILY

// MPI 4.0's, under a name that no mpi.h has: the last argument is an MPI_Session*.
int longshore_native_session_init(MPI_Info info, MPI_Errhandler handler,
                                  void* session) __asm__("PMPI_Session_init");

int PMPI_Request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status* statuses);
int PMPI_Request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                                MPI_Status* status);
int PMPI_Request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                                 MPI_Status* statuses);

}  // extern "C"

namespace longshore::mpi {}  // namespace longshore::mpi
