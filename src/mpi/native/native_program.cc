// For a program that measures or tests the MPI's own functions under the shim: linked in, its PMPI_ calls are
// native ones from its start.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "mpi/native/native.h"

namespace longshore::mpi {
namespace {

__attribute__((constructor)) void find_natives() {
    static const char* const names[LONGSHORE_ENTRY_COUNT] = {
#define LONGSHORE_ENTRY(name) "P" #name,
#include "mpi/entry_points.inc"
#undef LONGSHORE_ENTRY
    };
    // The stub does not have this one, so it is found in the MPI.
    void* somewhere = dlsym(RTLD_DEFAULT, "PMPI_Get_library_version");
    Dl_info info{};
    void* library =
        somewhere && dladdr(somewhere, &info) ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
    if (!library) {
        fprintf(stderr, "this program finds no MPI library in itself\n");
        abort();
    }
    const void* natives[LONGSHORE_ENTRY_COUNT];
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i) natives[i] = dlsym(library, names[i]);
    set_natives(natives);
}

}  // namespace
}  // namespace longshore::mpi
