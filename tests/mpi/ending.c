/* Threads that end within a call, in a program without C++: an error handler calls pthread_exit, or jumps out
 * of the call; a thread is cancelled while it waits in an offloaded call. The thread's cleanups run, what has
 * failed is over then, and the rank goes on.      ending exit|jump|cancel serialized|multiple */
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Bcast_init MPIX_Bcast_init
#endif

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
        }                                                                                  \
    } while (0)

enum { kBytes = 100000 };
static int rank, size, calls_of_handler = 0, cleanups = 0, jumps = 0;
static MPI_Comm failing;
static unsigned char much[2 * kBytes];
static jmp_buf before_call;

static void on_error(MPI_Comm* comm, int* code, ...) {
    (void)comm;
    (void)code;
    ++calls_of_handler;
    if (jumps) longjmp(before_call, 1);
    pthread_exit((void*)code);
}

/* Rank 0 sends more than the others take, which is an error of theirs; whether it is one of rank 0, too,
 * depends on how blocks go. */
static int count_of_bcast(void) {
    return rank == 0 ? 2 * kBytes : kBytes;
}

/* The communicator and the rank's offloaded calls are as good as before. */
static void go_on(void) {
    static int turn = 0;
    const int sent = ++turn;
    int *all = malloc((size_t)size * kBytes), *own = malloc((size_t)size * kBytes);
    const int count = kBytes / (int)sizeof(int);
    for (int i = 0; i < size * count; ++i) own[i] = sent + rank * size + i / count;
    CHECK(MPI_Alltoall(own, count, MPI_INT, all, count, MPI_INT, failing) == MPI_SUCCESS);
    for (int i = 0; i < size * count; ++i) CHECK(all[i] == sent + i / count * size + rank);
    memset(all, 0, (size_t)size * kBytes);
    MPI_Request request;
    CHECK(MPI_Ialltoall(own, count, MPI_INT, all, count, MPI_INT, failing, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < size * count; ++i) CHECK(all[i] == sent + i / count * size + rank);
    free(all);
    free(own);
}

enum { kBlocking, kWait, kWaitall, kTest, kPersistent, kNative, kCommunicator, kKinds };

static void fail_in(int kind) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm made;
    MPI_Status status;
    int flag = 0;
    if (kind == kBlocking) MPI_Bcast(much, count_of_bcast(), MPI_BYTE, 0, failing);
    if (kind == kWait || kind == kWaitall || kind == kTest)
        CHECK(MPI_Ibcast(much, count_of_bcast(), MPI_BYTE, 0, failing, &request) == MPI_SUCCESS);
    if (kind == kPersistent) {
        CHECK(MPI_Bcast_init(much, count_of_bcast(), MPI_BYTE, 0, failing, MPI_INFO_NULL, &request) ==
              MPI_SUCCESS);
        CHECK(MPI_Start(&request) == MPI_SUCCESS);
    }
    if (kind == kWait || kind == kPersistent) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (kind == kWaitall) MPI_Waitall(1, &request, &status);
    while (kind == kTest && !flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (kind == kPersistent) MPI_Request_free(&request);
    if (kind == kNative && rank != 0) MPI_Allgather(much, -1, MPI_BYTE, much, -1, MPI_BYTE, failing);
    if (kind == kCommunicator && rank != 0) MPI_Comm_dup(MPI_COMM_NULL, &made);
}

static void clean_up(void* unused) {
    (void)unused;
    ++cleanups;
}

static void* call_in_thread(void* kind) {
    pthread_cleanup_push(clean_up, NULL);
    fail_in(*(int*)kind);
    pthread_cleanup_pop(0);
    return NULL;
}

static void each_kind_exits(void) {
    for (int kind = 0; kind < kKinds; ++kind) {
        pthread_t thread;
        void* result = NULL;
        const int handled = calls_of_handler, cleaned = cleanups;
        CHECK(pthread_create(&thread, NULL, call_in_thread, &kind) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        const int has_ended = result != NULL;
        CHECK(has_ended || rank == 0);
        CHECK(calls_of_handler == handled + has_ended && cleanups == cleaned + has_ended);
        go_on();
    }
}

static void each_kind_jumps(void) {
    jumps = 1;
    for (volatile int kind = 0; kind < kKinds; ++kind) {
        for (volatile int i = 0; i < 20; ++i) {
            volatile const int handled = calls_of_handler;
            volatile const int jumped = setjmp(before_call);
            if (!jumped) fail_in(kind);
            CHECK(jumped || rank == 0);
            CHECK(calls_of_handler == handled + jumped);
        }
        go_on();
    }
}

static int *given, *taken, is_entered = 0, is_returned = 0;

static void* exchange_in_thread(void* is_blocking) {
    const int count = kBytes / (int)sizeof(int);
    MPI_Request request;
    __atomic_store_n(&is_entered, 1, __ATOMIC_RELEASE);
    pthread_cleanup_push(clean_up, NULL);
    if (is_blocking) {
        MPI_Alltoall(given, count, MPI_INT, taken, count, MPI_INT, failing);
    } else {
        MPI_Ialltoall(given, count, MPI_INT, taken, count, MPI_INT, failing, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    is_returned = 1;
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

/* The last rank's thread is cancelled while rank 0 has not come. */
static void cancel(void) {
    const int count = kBytes / (int)sizeof(int);
    given = malloc((size_t)size * kBytes);
    taken = malloc((size_t)size * kBytes);
    for (int turn = 0; turn < 10; ++turn) {
        const int is_blocking = turn % 2, is_cancelled = rank == size - 1;
        for (int i = 0; i < size * count; ++i) given[i] = turn + rank * size + i / count;
        memset(taken, 0, (size_t)size * kBytes);
        int token = 0;
        if (rank == 0) MPI_Recv(&token, 1, MPI_INT, size - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_t thread;
        void* result = NULL;
        const int cleaned = cleanups;
        is_entered = is_returned = 0;
        CHECK(pthread_create(&thread, NULL, exchange_in_thread, is_blocking ? &token : NULL) == 0);
        if (is_cancelled) {
            while (!__atomic_load_n(&is_entered, __ATOMIC_ACQUIRE)) usleep(100);
            usleep(turn < 4 ? 20000 : 100); /* asleep in its wait, or on the way there */
            CHECK(pthread_cancel(thread) == 0);
            MPI_Send(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        }
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(is_returned && (result == PTHREAD_CANCELED) == is_cancelled);
        CHECK(cleanups == cleaned + is_cancelled);
        for (int i = 0; i < size * count; ++i) CHECK(taken[i] == turn + i / count * size + rank);
        go_on();
    }
    free(given);
    free(taken);
}

int main(int argc, char** argv) {
    int level = 0;
    const char* const how = argc > 1 ? argv[1] : "exit";
    const int is_serialized = argc > 2 && strcmp(argv[2], "serialized") == 0;
    MPI_Init_thread(&argc, &argv, is_serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &failing);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(failing, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    go_on();
    if (strcmp(how, "exit") == 0) each_kind_exits();
    if (strcmp(how, "jump") == 0) each_kind_jumps();
    if (strcmp(how, "cancel") == 0) cancel();
    MPI_Comm_free(&failing);
    MPI_Finalize();
    if (rank == 0) printf("ending: ok\n");
    return 0;
}
