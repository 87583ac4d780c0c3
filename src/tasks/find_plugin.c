#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tasks/task_api.h"

static int is_there(const char* folder, size_t folder_bytes, const char* name, char* path, size_t bytes) {
    int length = snprintf(path, bytes, "%.*s/%s.so", (int)folder_bytes, folder, name);
    return length > 0 && (size_t)length < bytes && access(path, R_OK) == 0;
}

int longshore_find_plugin(const char* plugin, char* path, size_t bytes) {
    if (strchr(plugin, '/')) {
        char whole[PATH_MAX];
        const char* found = realpath(plugin, whole) ? whole : plugin; /* who opens it says what is wrong */
        return (size_t)snprintf(path, bytes, "%s", found) < bytes ? 0 : -1;
    }
    for (const char* folder = getenv("LONGSHORE_TASK_PATH"); folder && *folder;) {
        size_t length = strcspn(folder, ":");
        if (length && is_there(folder, length, plugin, path, bytes)) {
            char whole[PATH_MAX];
            return !realpath(path, whole) || (size_t)snprintf(path, bytes, "%s", whole) < bytes ? 0 : -1;
        }
        folder += length + (folder[length] == ':');
    }
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = 0;
        const char* slash = strrchr(program, '/');
        if (slash && is_there(program, (size_t)(slash - program), plugin, path, bytes)) return 0;
    }
    return (size_t)snprintf(path, bytes, "%s.so", plugin) < bytes ? 0 : -1;
}
