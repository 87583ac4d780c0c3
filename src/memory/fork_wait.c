#define _GNU_SOURCE
#include "memory/fork_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

enum { kLookUs = 1000, kLooksUntilSaid = 10000 };

/* A segment goes with the last process that has it attached. */
static void make_segment(longshore_fork_wait* wait) {
    wait->segment = shmget(IPC_PRIVATE, 1, 0600);
    if (wait->segment < 0) return;
    wait->attached = shmat(wait->segment, NULL, 0);
    shmctl(wait->segment, IPC_RMID, NULL);
    if (wait->attached == (void*)-1) wait->segment = -1;
}

void longshore_fork_wait_begin(longshore_fork_wait* wait, int* shared) {
    *wait = (longshore_fork_wait){{-1, -1}, -1, NULL, shared};
    *shared = 0;
    if (pipe2(wait->pipe, O_CLOEXEC) == 0) return;
    wait->pipe[0] = wait->pipe[1] = -1;
    make_segment(wait);
}

/* Whether a child has the segment attached. The system counts one from the fork on until it detaches itself,
 * ends, or runs another program; a process that another thread has started meanwhile without these handlers
 * counts, too. */
static int is_attached(const longshore_fork_wait* wait) {
    struct shmid_ds now;
    return shmctl(wait->segment, IPC_STAT, &now) == 0 && now.shm_nattch > 1;
}

/* Nobody can tell whether the child is still there: better to wait for one that is gone than to go on beside
 * one that copies what is changed meanwhile. */
static void wait_for_word(const longshore_fork_wait* wait) {
    static const char kWaits[] =
        "longshore: a fork waits until the child has a copy of this process's large blocks. With no "
        "descriptor "
        "and no shared memory left it would not notice the child's end: if it stays here, raise the limit of "
        "open files (ulimit -n)\n";
    for (int looks = 0; !__atomic_load_n(wait->is_through, __ATOMIC_ACQUIRE); ++looks) {
        if (looks == kLooksUntilSaid && write(STDERR_FILENO, kWaits, sizeof kWaits - 1) < 0) {
        } /* nobody to tell */
        usleep(kLookUs);
    }
}

void longshore_fork_wait_in_parent(longshore_fork_wait* wait) {
    const int error = errno;
    if (wait->pipe[1] >= 0) {
        char byte;
        /* Ends when the child has closed its end, be it because it is gone. */
        close(wait->pipe[1]);
        while (read(wait->pipe[0], &byte, 1) < 0 && errno == EINTR) {
        }
        close(wait->pipe[0]);
    } else if (wait->segment >= 0) {
        while (is_attached(wait)) usleep(kLookUs);
        shmdt(wait->attached);
    } else {
        wait_for_word(wait);
    }
    errno = error;
}

void longshore_fork_wait_end_in_child(longshore_fork_wait* wait) {
    __atomic_store_n(wait->is_through, 1, __ATOMIC_RELEASE);
    if (wait->segment >= 0) shmdt(wait->attached);
    if (wait->pipe[0] >= 0) close(wait->pipe[0]);
    if (wait->pipe[1] >= 0) close(wait->pipe[1]);
}
