// Stands before the MPI and changes one number of the first rank's result of the call that FLIP names, in its
// 20th call: the checks must find it.
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int is_now(const char* call, int* calls) {
    const char* const wanted = getenv("FLIP");
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return wanted && strcmp(wanted, call) == 0 && rank == 0 && ++*calls == 20;
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm) {
    static int calls;
    const int result =
        PMPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, comm);
    // The last rank's: whether it is density or what else a block holds.
    int ranks = 1;
    PMPI_Comm_size(comm, &ranks);
    if (is_now("allgather", &calls))
        ((double*)receive)[(size_t)receive_count * (size_t)ranks - (size_t)receive_count / 2] += 10;
    return result;
}

int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                 MPI_Datatype receive_type, MPI_Comm comm) {
    static int calls;
    const int result = PMPI_Alltoall(send, send_count, send_type, receive, receive_count, receive_type, comm);
    if (is_now("alltoall", &calls)) ((double*)receive)[receive_count / 2] += 0.5;
    return result;
}

static void* last_received;

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
    last_received = buffer;
    return PMPI_Irecv(buffer, count, type, source, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    static int calls;
    const int result = PMPI_Waitall(count, requests, statuses);
    if (last_received && is_now("waitall", &calls)) ((double*)last_received)[1000] += 0.5;
    return result;
}
