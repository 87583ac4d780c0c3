/* Which ordinary memory may be shared where it is: that of which nobody can take the pages away. */
#ifndef LONGSHORE_MEMORY_ADOPT_H
#define LONGSHORE_MEMORY_ADOPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As longshore_heap_adopt, for the whole pages in [base, base + bytes): they must be static data of the
 * program itself (writable, not read-only after relocation) and not locked or kept from children, as those
 * are that somebody has registered with a device. *begin, *end: which of the bytes are shared then; *offset:
 * of the first. */
int longshore_adopt(const void* base, size_t bytes, uint64_t* begin, uint64_t* end, uint64_t* offset);

#ifdef __cplusplus
}
#endif
#endif
