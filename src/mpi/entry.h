// The shim's side of each interposed function but the collectives (families.h). Arguments are MPI's own.
#pragma once

#include <mpi.h>

namespace longshore::mpi::entry {

int init(int* argc, char*** argv);
int init_thread(int* argc, char*** argv, int required, int* provided);
// `session` is an MPI_Session*, which not every mpi.h has.
int session_init(MPI_Info info, MPI_Errhandler handler, void* session);
int finalize();
int abort(MPI_Comm comm, int code);

int comm_dup(MPI_Comm comm, MPI_Comm* newcomm);
int comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm);
int comm_split(MPI_Comm comm, int color, int key, MPI_Comm* newcomm);
int comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* newcomm);
int comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm);
int comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm);
int comm_set_name(MPI_Comm comm, const char* name);
int cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
                MPI_Comm* newcomm);
int cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* newcomm);
int graph_create(MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder,
                 MPI_Comm* newcomm);
int dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[],
                      const int destinations[], const int weights[], MPI_Info info, int reorder,
                      MPI_Comm* newcomm);
int dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
                               int outdegree, const int destinations[], const int destweights[],
                               MPI_Info info, int reorder, MPI_Comm* newcomm);

int start(MPI_Request* request);
int startall(int count, MPI_Request requests[]);
int wait(MPI_Request* request, MPI_Status* status);
int waitall(int count, MPI_Request requests[], MPI_Status statuses[]);
int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status);
int waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]);
int test(MPI_Request* request, int* flag, MPI_Status* status);
int testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]);
int testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status);
int testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]);
int request_get_status(MPI_Request request, int* flag, MPI_Status* status);
int request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]);
int request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                           MPI_Status* status);
int request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                            MPI_Status statuses[]);
int request_free(MPI_Request* request);
int cancel(MPI_Request* request);

int alloc_mem(MPI_Aint bytes, MPI_Info info, void* base);
int free_mem(void* base);

}  // namespace longshore::mpi::entry

// The Wait and Test family as the program has it: the above, and what has failed is told (wait_errors.h).
namespace longshore::mpi::told {

int wait(MPI_Request* request, MPI_Status* status);
int waitall(int count, MPI_Request requests[], MPI_Status statuses[]);
int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status);
int waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]);
int test(MPI_Request* request, int* flag, MPI_Status* status);
int testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]);
int testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status);
int testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]);
int request_get_status(MPI_Request request, int* flag, MPI_Status* status);
int request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]);
int request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                           MPI_Status* status);
int request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                            MPI_Status statuses[]);

}  // namespace longshore::mpi::told
