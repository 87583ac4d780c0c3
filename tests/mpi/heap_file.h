// This process's heap of large blocks, as the system shows it.
#pragma once

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>

// Its file: how long it is, and how much memory it has.
struct HeapFile {
    size_t bytes = 0, resident = 0;
};
inline HeapFile heap_file() {
    HeapFile found;
    DIR* const files = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(files)) {
        char target[256] = {};
        struct stat status;
        const std::string path = std::string("/proc/self/fd/") + entry->d_name;
        if (readlink(path.c_str(), target, sizeof target - 1) > 0 && strstr(target, "memfd:longshore-heap") &&
            stat(path.c_str(), &status) == 0)
            found = {static_cast<size_t>(status.st_size), static_cast<size_t>(status.st_blocks) * 512};
    }
    closedir(files);
    return found;
}

// Whether others of the node can map what lies there.
inline bool is_shared(const void* memory) {
    FILE* const maps = fopen("/proc/self/maps", "r");
    char line[512], flags[8] = {};
    bool shared = false;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from = 0, to = 0;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, flags) != 3) continue;
        const auto at = reinterpret_cast<unsigned long>(memory);
        if (at >= from && at < to) shared = flags[3] == 's' && strstr(line, "memfd:longshore-heap");
    }
    fclose(maps);
    return shared;
}
