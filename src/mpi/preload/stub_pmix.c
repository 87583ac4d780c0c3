/* PMIx_Commit, with which an MPI publishes in MPI_Init what its peers must know of it: a shim core that waits
 * for that puts a word of its own in first (agreement.cc). It cannot do so by itself before: Open MPI 5 fails
 * in MPI_Init if PMIx has been initialised already, and PMIx does not survive being finalised and initialised
 * again. */
#define _GNU_SOURCE
#include "mpi/preload/stub_pmix.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(longshore_pmix_hook) hook;

void longshore_set_pmix_hook(longshore_pmix_hook function) {
    atomic_store(&hook, function);
}

__attribute__((visibility("default"))) int PMIx_Commit(void) {
    enum { kNotSupported = -47 }; /* PMIX_ERR_NOT_SUPPORTED */
    void* library = NULL;
    void* next = dlsym(RTLD_NEXT, "PMIx_Commit");
    /* That of an MPI which a plug-in has opened for itself is not next to anything. */
    if (!next && (library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD)))
        next = dlsym(library, "PMIx_Commit");
    if (!next) return kNotSupported;
    longshore_pmix_hook function = atomic_load(&hook);
    if (function) function(next);
    const int status = ((int (*)(void))next)();
    if (library) dlclose(library);
    return status;
}
