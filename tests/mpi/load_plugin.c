/* A program without MPI, whose plug-in has it: load_plugin FILE runs the plug-in's main. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(int, char**) = plugin ? (int (*)(int, char**))dlsym(plugin, "main") : NULL;
    if (!run) {
        fprintf(stderr, "load_plugin: %s\n", plugin ? "no main in the plug-in" : dlerror());
        return 1;
    }
    return run(argc - 1, argv + 1);
}
