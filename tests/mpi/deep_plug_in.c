/* A plug-in that is opened with RTLD_DEEPBIND: it finds libc's functions before those that stand before them.
 */
#include <malloc.h>
#include <stdlib.h>

void deep_free(void* block) {
    free(block);
}
void* deep_realloc(void* block, size_t bytes) {
    return realloc(block, bytes);
}
size_t deep_usable(void* block) {
    return malloc_usable_size(block);
}
