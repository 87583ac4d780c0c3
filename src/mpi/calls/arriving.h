// How many bytes a call brings to this rank, its own block included: for the statistics of calls that MPI
// serves. The arguments are those of the plans (collectives.h), and right: MPI looks at them next. Zero if
// they are not.
#pragma once

#include "mpi/calls/integers.h"
#include "mpi/shim.h"

namespace longshore::mpi {

uint64_t arriving_uniform(const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int64_t recvcount, MPI_Datatype recvtype, MPI_Comm comm);
uint64_t arriving_bcast(void* buffer, int64_t count, MPI_Datatype datatype, int root, MPI_Comm comm);
uint64_t arriving_alltoallv(const void* sendbuf, Integers sendcounts, Integers sdispls, MPI_Datatype sendtype,
                            void* recvbuf, Integers recvcounts, Integers rdispls, MPI_Datatype recvtype,
                            MPI_Comm comm);
uint64_t arriving_alltoallw(const void* sendbuf, Integers sendcounts, Integers sdispls,
                            const MPI_Datatype sendtypes[], void* recvbuf, Integers recvcounts,
                            Integers rdispls, const MPI_Datatype recvtypes[], MPI_Comm comm);
uint64_t arriving_allgatherv(const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                             Integers recvcounts, Integers displs, MPI_Datatype recvtype, MPI_Comm comm);
uint64_t arriving_gather(const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                         int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
uint64_t arriving_gatherv(const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                          Integers recvcounts, Integers displs, MPI_Datatype recvtype, int root,
                          MPI_Comm comm);
uint64_t arriving_scatter(const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
uint64_t arriving_scatterv(const void* sendbuf, Integers sendcounts, Integers displs, MPI_Datatype sendtype,
                           void* recvbuf, int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);

}  // namespace longshore::mpi
