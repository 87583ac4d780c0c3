/* A program without MPI that opens a plug-in which has it, and perhaps the MPI before that.
 *      plug_in_host PLUG_IN local|global [MPI-LIBRARY] */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const int scope = strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    if (argc > 3 && !dlopen(argv[3], RTLD_NOW | scope)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void* plug_in = dlopen(argv[1], RTLD_NOW | scope);
    int (*use_mpi)(void) = plug_in ? (int (*)(void))dlsym(plug_in, "use_mpi") : NULL;
    if (!use_mpi) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return use_mpi();
}
