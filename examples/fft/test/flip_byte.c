// Preloaded by a test: an MPI whose exchanges are wrong. Once an exchange has completed, one byte of what
// rank 1 has received is another.
#include <mpi.h>
#include <stdlib.h>

enum { kRequestsMax = 64 };
static struct {
    MPI_Request request;
    unsigned char* received;
} open_[kRequestsMax];

static void flip(unsigned char* received) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    // The last byte of a number, double or single, holds its sign and exponent: a zero becomes two.
    if (rank == 1) received[7] ^= 0x40;
}

int MPI_Alltoallv(const void* send, const int send_counts[], const int send_places[], MPI_Datatype send_type,
                  void* receive, const int receive_counts[], const int receive_places[],
                  MPI_Datatype receive_type, MPI_Comm comm) {
    const int rc = PMPI_Alltoallv(send, send_counts, send_places, send_type, receive, receive_counts,
                                  receive_places, receive_type, comm);
    flip(receive);
    return rc;
}

int MPI_Ialltoallv(const void* send, const int send_counts[], const int send_places[], MPI_Datatype send_type,
                   void* receive, const int receive_counts[], const int receive_places[],
                   MPI_Datatype receive_type, MPI_Comm comm, MPI_Request* request) {
    const int rc = PMPI_Ialltoallv(send, send_counts, send_places, send_type, receive, receive_counts,
                                   receive_places, receive_type, comm, request);
    for (int i = 0; i < kRequestsMax; ++i) {
        if (open_[i].received) continue;
        open_[i].request = *request;
        open_[i].received = receive;
        break;
    }
    return rc;
}

static void flip_completed(const MPI_Request before[], int count, int index) {
    for (int i = 0; i < kRequestsMax && index >= 0 && index < count; ++i) {
        if (!open_[i].received || open_[i].request != before[index]) continue;
        flip(open_[i].received);
        open_[i].received = NULL;
        break;
    }
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    MPI_Request before[kRequestsMax];
    if (count > kRequestsMax) abort();
    for (int i = 0; i < count; ++i) before[i] = requests[i];
    const int rc = PMPI_Waitany(count, requests, index, status);
    flip_completed(before, count, *index);
    return rc;
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* completed, MPI_Status* status) {
    MPI_Request before[kRequestsMax];
    if (count > kRequestsMax) abort();
    for (int i = 0; i < count; ++i) before[i] = requests[i];
    const int rc = PMPI_Testany(count, requests, index, completed, status);
    if (*completed) flip_completed(before, count, *index);
    return rc;
}
