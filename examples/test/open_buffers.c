// Preloaded before a program: says so when memory is freed that an open operation of MPI still uses, and
// keeps it, so that the program goes on as if nothing had happened. Knows what the examples call; operations
// of one thread.
#include <malloc.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

void __libc_free(void* block);

enum { kOpenMax = 4096 };

static struct {
    MPI_Request request;
    const void* buffer;
} open_operations[kOpenMax];
static int open_count;

static void add(MPI_Request request, const void* buffer) {
    if (open_count == kOpenMax) {
        static const char kTooMany[] = "open_buffers: too many open operations\n";
        if (write(STDERR_FILENO, kTooMany, sizeof(kTooMany) - 1) < 0) _exit(1);
        _exit(1);
    }
    open_operations[open_count].request = request;
    open_operations[open_count++].buffer = buffer;
}

static void end(MPI_Request request) {
    for (int i = 0; i < open_count;) {
        if (open_operations[i].request == request)
            open_operations[i] = open_operations[--open_count];
        else
            ++i;
    }
}

void free(void* block) {
    const uintptr_t begin = (uintptr_t)block, bytes = block ? malloc_usable_size(block) : 0;
    for (int i = 0; i < open_count; ++i)
        if ((uintptr_t)open_operations[i].buffer - begin < bytes) {
            static const char kFreed[] = "open_buffers: memory of an open operation was freed\n";
            if (write(STDERR_FILENO, kFreed, sizeof(kFreed) - 1) < 0) _exit(1);
            return;
        }
    __libc_free(block);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
    const int error = PMPI_Isend(data, count, type, to, tag, comm, request);
    if (error == MPI_SUCCESS) add(*request, data);
    return error;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
    const int error = PMPI_Irecv(data, count, type, from, tag, comm, request);
    if (error == MPI_SUCCESS) add(*request, data);
    return error;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
    const MPI_Request given = *request;
    const int error = PMPI_Test(request, done, status);
    if (*done) end(given);
    return error;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
    const MPI_Request given = *request;
    const int error = PMPI_Wait(request, status);
    end(given);
    return error;
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
    MPI_Request given[count + 1];
    for (int i = 0; i < count; ++i) given[i] = requests[i];
    const int error = PMPI_Waitall(count, requests, statuses);
    for (int i = 0; i < count; ++i) end(given[i]);
    return error;
}

int MPI_Testall(int count, MPI_Request* requests, int* done, MPI_Status* statuses) {
    MPI_Request given[count + 1];
    for (int i = 0; i < count; ++i) given[i] = requests[i];
    const int error = PMPI_Testall(count, requests, done, statuses);
    for (int i = 0; *done && i < count; ++i) end(given[i]);
    return error;
}
