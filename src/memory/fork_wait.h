/* A parent that waits in fork until its child is through with something, or gone. Where no descriptor is left
 * for a pipe, a segment of System V shared memory takes its place. C, libc only; one fork at a time. */
#ifndef LONGSHORE_MEMORY_FORK_WAIT_H
#define LONGSHORE_MEMORY_FORK_WAIT_H

typedef struct longshore_fork_wait {
    int pipe[2];     /* -1: none */
    int segment;     /* -1: none */
    void* attached;  /* the segment, in both processes */
    int* is_through; /* in memory that both see; for where there is neither */
} longshore_fork_wait;

/* Before the fork. `shared`: a word that parent and child both see. */
void longshore_fork_wait_begin(longshore_fork_wait* wait, int* shared);
/* In the parent: returns when the child has called the next one, or is gone. */
void longshore_fork_wait_in_parent(longshore_fork_wait* wait);
/* In the child, when it is through. */
void longshore_fork_wait_end_in_child(longshore_fork_wait* wait);

#endif
