/* Stands in for libibverbs.so.1 in a test of longshore-device: one card that registers memory, one region at
 * a time, and says no to whatever a program does wrong. The environment variable FAKE_VERBS_REFUSES is the
 * size from which on it refuses. */
#include <stddef.h>
#include <stdlib.h>

static int card, context, domain, region;
static void* cards[] = {&card, NULL};
static int registered;

void** ibv_get_device_list(int* count) {
    *count = 1;
    return cards;
}

void ibv_free_device_list(void** list) {
    if (list != cards || registered != 0) abort();
}

void* ibv_open_device(void* device) {
    return device == &card ? &context : NULL;
}

int ibv_close_device(void* opened) {
    return opened != &context;
}

void* ibv_alloc_pd(void* opened) {
    return opened == &context ? &domain : NULL;
}

int ibv_dealloc_pd(void* allocated) {
    return allocated != &domain;
}

void* ibv_reg_mr(void* in, void* at, size_t bytes, int access) {
    const char* limit = getenv("FAKE_VERBS_REFUSES");
    const int local_write_and_remote_read_and_write = 7;
    if (in != &domain || at == NULL || access != local_write_and_remote_read_and_write || registered != 0)
        abort();
    if (limit != NULL && bytes >= strtoul(limit, NULL, 10)) return NULL;
    registered = 1;
    return &region;
}

int ibv_dereg_mr(void* of) {
    registered = 0;
    return of != &region;
}
