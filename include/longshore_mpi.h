/* A task (longshore_task.h) as an MPI_Request, for MPI_Wait, MPI_Waitany and their relatives together with any other requests.
 * Compiled by the program's own mpicc, since each MPI has an MPI_Request of its own. */
#ifndef LONGSHORE_MPI_H
#define LONGSHORE_MPI_H

#include <mpi.h>

#include "longshore_task.h"

/* The request of a task that has run inline: complete from the start. */
static inline int longshore_request_query(void* result, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return result != NULL ? MPI_ERR_OTHER : MPI_SUCCESS;
}
static inline int longshore_request_free(void* result) {
    (void)result;
    return MPI_SUCCESS;
}
static inline int longshore_request_cancel(void* result, int complete) {
    (void)result;
    (void)complete;
    return MPI_SUCCESS;
}

/* Sets *request, which stands for the task from now on, and *task to null. It is completed by MPI's functions as a generalized
 * request is: its buffers are the program's again then, and a task that failed completes with MPI_ERR_OTHER, the reason on
 * stderr. It cannot be cancelled, nor freed before it is complete. Returns 0 or an error (then nothing has changed). */
static inline int longshore_task_request(longshore_task** task, MPI_Request* request) {
    static char failed;
    longshore_request_maker* maker;
    int result;
    if (task == NULL || *task == NULL || request == NULL) return LONGSHORE_ERR_ARGUMENT;
    maker = longshore_get_request_maker(*task);
    if (maker != NULL) return maker(task, request);
    result = longshore_wait(task);
    if (MPI_Grequest_start(longshore_request_query, longshore_request_free, longshore_request_cancel,
                           result != 0 ? &failed : NULL, request) != MPI_SUCCESS)
        return LONGSHORE_ERR_MEMORY;
    return MPI_Grequest_complete(*request) == MPI_SUCCESS ? 0 : LONGSHORE_ERR_MEMORY;
}

#endif
