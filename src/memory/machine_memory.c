#define _GNU_SOURCE
#include "memory/machine_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kTextBytes = 4096, kPathBytes = 1024, kStallPercent = 10 };

/* Not on the stack: a thread that frees a block may have 16 KiB of that. */
static struct {
    char text[kTextBytes];  /* what was read last */
    char path[kPathBytes];  /* of that file */
    char line[kPathBytes];  /* this process's group, as /proc/self/cgroup names it */
    char group[kPathBytes]; /* the folder of the group that is looked at */
} scratch;

static int join(char* path, const char* const parts[], int count) {
    size_t length = 0;
    for (int i = 0; i < count; ++i) {
        const size_t more = strlen(parts[i]);
        if (length + more >= kPathBytes) return 0;
        memcpy(path + length, parts[i], more + 1);
        length += more;
    }
    return 1;
}

/* The beginning of a file, or null. By system calls: libc's open and read are points of cancellation. */
static char* read_text(const char* folder, const char* name) {
    char* const text = scratch.text;
    const char* const parts[] = {folder, name};
    if (!join(scratch.path, parts, 2)) return NULL;
    const long file = syscall(SYS_openat, AT_FDCWD, scratch.path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    size_t have = 0;
    long got;
    while (have < kTextBytes - 1 &&
           ((got = syscall(SYS_read, file, text + have, kTextBytes - 1 - have)) > 0 ||
            (got < 0 && errno == EINTR)))
        if (got > 0) have += (size_t)got;
    syscall(SYS_close, file);
    text[have] = 0;
    return have != 0 ? text : NULL;
}

/* The number behind `key`, which begins a line; 0 if there is none. */
static uint64_t number_after(const char* text, const char* key) {
    for (const char* line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') ++line;
        if (strncmp(line, key, strlen(key)) == 0) return strtoull(line + strlen(key), NULL, 10);
    }
    return 0;
}

/* A file that holds nothing but a number; UINT64_MAX: there is none, or "max". */
static uint64_t read_number(const char* folder, const char* name) {
    char* const text = read_text(folder, name);
    char* end = text;
    if (text == NULL) return UINT64_MAX;
    const uint64_t number = strtoull(text, &end, 10);
    return end != text ? number : UINT64_MAX;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void add_limit(longshore_machine_memory* out, uint64_t bytes, uint64_t available) {
    if (out->limit_count < kMemoryLimitsMax)
        out->limits[out->limit_count++] = (longshore_memory_limit){bytes, less(available, bytes)};
}

/* Of one control group, if it has a limit below the machine's memory. */
static void look_at_group(const char* group, int version, uint64_t machine, longshore_machine_memory* out) {
    const uint64_t limit = version == 2
                               ? less(read_number(group, "/memory.max"), read_number(group, "/memory.high"))
                               : read_number(group, "/memory.limit_in_bytes");
    if (limit >= machine) return;
    const uint64_t used = read_number(group, version == 2 ? "/memory.current" : "/memory.usage_in_bytes");
    const char* const text = read_text(group, "/memory.stat");
    if (used == UINT64_MAX || text == NULL) return;
    const uint64_t files =
        version == 2 ? number_after(text, "inactive_file ") + number_after(text, "active_file ")
                     : number_after(text, "total_inactive_file ") + number_after(text, "total_active_file ");
    const uint64_t needed = used - less(used, files);
    add_limit(out, limit, limit - less(limit, needed));
}

/* The path behind the controllers in a line of /proc/self/cgroup, "4:memory:/path" or "0::/path". */
static char* group_of(char* text, int* version) {
    char *found = NULL, *rest = NULL;
    for (char* line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char* const controllers = strchr(line, ':');
        char* const path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) continue;
        *path = 0;
        for (const char* name = controllers + 1; name != NULL; name = strchr(name, ',')) {
            if (*name == ',') ++name;
            if (strncmp(name, "memory", 6) == 0 && (name[6] == 0 || name[6] == ',')) {
                *version = 1;
                return path + 1;
            }
        }
        if (controllers[1] == 0) {
            *version = 2;
            found = path + 1;
        }
    }
    return found;
}

static int is_stalled(const char* folder, const char* name, int* stalls) {
    const char* const text = read_text(folder, name);
    if (text == NULL) return 0;
    *stalls = number_after(text, "some avg10=") >= kStallPercent;
    return 1;
}

/* This process's group and those around it. In a container the path may be that on the host: its parts then
 * lead nowhere, and the last, "", is the container's own group. */
static int look_at_groups(const char* root, uint64_t machine, longshore_machine_memory* out) {
    int version = 0, stalls_read = 0;
    char* const text = read_text(root, "/proc/self/cgroup");
    const char* const own = text != NULL ? group_of(text, &version) : NULL;
    if (own == NULL || !join(scratch.line, &own, 1)) return 0;
    char* const group = scratch.line;
    const char* const mount = version == 2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (int depth = 0; depth < 2 * kMemoryLimitsMax; ++depth) {
        const char* const parts[] = {root, mount, strcmp(group, "/") == 0 ? "" : group};
        if (join(scratch.group, parts, 3)) {
            look_at_group(scratch.group, version, machine, out);
            if (version == 2 && !stalls_read)
                stalls_read = is_stalled(scratch.group, "/memory.pressure", &out->stalls);
        }
        char* const last = strrchr(group, '/');
        if (last == NULL) break;
        *last = 0;
    }
    return stalls_read;
}

void longshore_read_machine_memory(const char* root, longshore_machine_memory* out) {
    *out = (longshore_machine_memory){.limit_count = 0};
    const int error = errno;
    const char* const text = read_text(root, "/proc/meminfo");
    if (text != NULL) {
        const uint64_t total = number_after(text, "MemTotal:") * 1024;
        if (total != 0) {
            add_limit(out, total, number_after(text, "MemAvailable:") * 1024);
            /* The nearest group's own stalls, if it counts them; the machine's may be those of another job.
             */
            if (!look_at_groups(root, total, out)) is_stalled(root, "/proc/pressure/memory", &out->stalls);
        }
    }
    errno = error;
}
