/* What the shim core calls in liblongshore-io.so, which it finds by these names. Until attach and after
 * detach the library hands every call on as it is. */
#ifndef LONGSHORE_IO_ATTACH_H
#define LONGSHORE_IO_ATTACH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct longshore_io_job {
    int board, ring, socket; /* descriptors; the library keeps the last */
    uint64_t ring_bytes;
    uint32_t local_rank, local_count, rank;
    const char* patterns; /* with colons between them; "strict" among them: close waits */
} longshore_io_job;

/* 0, or an errno. */
int longshore_io_attach(const longshore_io_job* job);
/* Waits until all that was submitted is written, and says what could not be. Returns the files of this rank
 * of which something is lost. */
uint32_t longshore_io_detach(void);
/* Likewise, but the program may go on: before it ends in a way that nobody can hold up. */
void longshore_io_drain(void);
/* The board (io/layout.h), until the process ends; null: never attached. */
const void* longshore_io_board(void);
/* The pattern of that number, or null: there are no more. */
const char* longshore_io_pattern(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
