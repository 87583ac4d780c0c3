/* liblongshore.so, what LD_PRELOAD names. No MPI in it: it loads into every program, and does nothing until
 * the first MPI call. Then it sees which MPI is mapped, opens the shim core made for it and fills the table
 * through which its MPI_ symbols jump (stub_trampolines.S); without a core, or with LONGSHORE_OFFLOAD=off,
 * the table leads to PMPI_. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/core_api.h"

__attribute__((visibility("hidden"))) extern const void* longshore_entries[LONGSHORE_ENTRY_COUNT];
__attribute__((visibility("hidden"))) void longshore_resolve(void);

static const char* const kNames[LONGSHORE_ENTRY_COUNT] = {
#define LONGSHORE_ENTRY(name) "P" #name,
#include "mpi/entry_points.inc"
#undef LONGSHORE_ENTRY
};

enum { kUntouched, kResolving, kResolved };
static atomic_int state = kUntouched;
static const longshore_core_api* core = NULL;

static const char* base_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What an MPI library is called. More than one match means that we cannot know whose calls these are. */
struct search {
    char path[PATH_MAX];
    int found;
};

static int look_at_object(struct dl_phdr_info* info, size_t size, void* user) {
    struct search* search = user;
    (void)size;
    const char* name = base_name(info->dlpi_name);
    if (strncmp(name, "libmpi.so", 9) != 0 && strncmp(name, "libmpich.so", 11) != 0 &&
        strncmp(name, "libmpi_abi.so", 13) != 0)
        return 0;
    if (strlen(info->dlpi_name) < sizeof search->path) {
        strcpy(search->path, info->dlpi_name);
        ++search->found;
    }
    return 0;
}

/* A handle on the mapped MPI, in global scope afterwards so that the core finds its symbols. An MPI that a
 * plug-in opened with RTLD_LOCAL calls us too, but RTLD_NEXT does not lead back to it. */
static void* open_mpi(char* path, size_t bytes) {
    struct search search = {.found = 0};
    dl_iterate_phdr(look_at_object, &search);
    void* next = dlsym(RTLD_NEXT, "PMPI_Init");
    Dl_info info;
    if (next && dladdr(next, &info) && info.dli_fname && strlen(info.dli_fname) < bytes) {
        strcpy(path, info.dli_fname);
        return dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    }
    if (search.found != 1 || strlen(search.path) >= bytes) return NULL;
    strcpy(path, search.path);
    return dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL);
}

/* The ABI that a core is built for, by the library's major version and a symbol of its own. */
static const char* flavour_of(void* mpi, const char* path) {
    const char* name = base_name(path);
    if (strstr(name, ".so.40") && dlsym(mpi, "ompi_mpi_comm_world")) return "openmpi";
    if (strstr(name, ".so.12") && dlsym(mpi, "MPIR_Dup_fn")) return "mpich";
    return NULL;
}

/* The spellings that src/base/settings.cc reads as off; a malformed value is for the core to complain about.
 */
static int offload_wanted(void) {
    const char* text = getenv("LONGSHORE_OFFLOAD");
    return !text || (strcmp(text, "off") != 0 && strcmp(text, "0") != 0);
}

static const longshore_core_api* open_core(const char* flavour) {
    Dl_info self;
    if (!dladdr((void*)&longshore_entries, &self) || !self.dli_fname) return NULL;
    char path[PATH_MAX];
    int directory = (int)(base_name(self.dli_fname) - self.dli_fname);
    int length = snprintf(path, sizeof path, "%.*sliblongshore-%s.so", directory, self.dli_fname, flavour);
    if (length < 0 || (size_t)length >= sizeof path) return NULL;
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "longshore: cannot load the shim for this MPI, plain MPI is used: %s\n", dlerror());
        return NULL;
    }
    const longshore_core_api* (*get)(void) =
        (const longshore_core_api* (*)(void))dlsym(handle, "longshore_core");
    const longshore_core_api* api = get ? get() : NULL;
    if (!api || api->version != LONGSHORE_CORE_VERSION || api->entry_count != LONGSHORE_ENTRY_COUNT) {
        fprintf(stderr, "longshore: %s does not belong to this liblongshore.so, plain MPI is used\n", path);
        return NULL;
    }
    return api;
}

/* Somebody calls MPI_X and there is no MPI: only a program that found the symbol by name. */
static int no_mpi(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        fprintf(stderr, "longshore: an MPI function is called, but no MPI library is loaded\n");
    return 16; /* MPI_ERR_OTHER, in both MPIs */
}

static void fill(void) {
    char path[PATH_MAX];
    void* mpi = open_mpi(path, sizeof path);
    const char* flavour = mpi && offload_wanted() ? flavour_of(mpi, path) : NULL;
    core = flavour ? open_core(flavour) : NULL;
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i) {
        const void* entry = core ? core->entries[i] : NULL;
        if (!entry && mpi) entry = dlsym(mpi, kNames[i]);
        if (!entry) entry = dlsym(RTLD_NEXT, kNames[i]);
        if (!entry) entry = (const void*)no_mpi;
        __atomic_store_n(&longshore_entries[i], entry, __ATOMIC_RELEASE);
    }
}

void longshore_resolve(void) {
    int expected = kUntouched;
    if (atomic_compare_exchange_strong(&state, &expected, kResolving)) {
        fill();
        atomic_store(&state, kResolved);
        return;
    }
    while (atomic_load(&state) != kResolved) sched_yield(); /* another thread is at it */
}

__attribute__((visibility("default"))) int longshore_get_counters(longshore_counters* out) {
    if (atomic_load(&state) == kResolved && core) return core->get_counters(out);
    if (out) memset(out, 0, sizeof *out);
    return -1;
}

__attribute__((visibility("default"))) int longshore_set(const char* name, const char* value) {
    return atomic_load(&state) == kResolved && core ? core->set(name, value) : -1;
}
