// What all calls that open files have in common: before one, what other ranks have written to that file is
// written; after it, the descriptor is known.
#pragma once

#include <errno.h>
#include <string.h>

#include "io/preload/behind.h"

namespace longshore::io {

// Whether a path may concern write-behind: for most a look at its last letters.
inline bool may_concern(int folder, const char* path) {
    return is_on.load(std::memory_order_relaxed) != 0 && path != nullptr && may_match(folder, path);
}

// A descriptor by another way than open: all that it could be is written, and the program's own from then on.
inline bool leads_to_descriptor(const char* path) {
    return strncmp(path, "/dev/fd/", 8) == 0 ||
           (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/") != nullptr);
}

// A call that gives a descriptor. Where none is left those are closed first that the program has closed and
// that wait for the disk. Without a Guard.
template <class Call>
int with_room(Call call) {
    const int fd = call();
    if (fd >= 0 || errno != EMFILE || !is_rank()) return fd;
    {
        const Guard guard;
        close_written(true);
    }
    return call();
}

// `call` opens it, with a Guard if the path may match, and returns the descriptor.
template <class Call>
int open_with(int folder, const char* path, int flags, Opener opener, Call call) {
    if (is_on.load(std::memory_order_relaxed) == 0) return call();
    if (path != nullptr && path[0] == '/' && (path[1] == 'd' || path[1] == 'p') &&
        leads_to_descriptor(path) && is_rank()) {
        const Guard guard;
        let_go_all(Reason::kOther, false);
    }
    if (path == nullptr || !may_match(folder, path) || !is_rank()) {
        const int fd = opener != Opener::kStreamAgain ? with_room(call) : call();
        // The program has closed that number in a way that this library does not see.
        if (fd >= 0 && path != nullptr && concerns(fd) && is_rank()) {
            const Guard guard;
            forget_descriptor(fd);
        }
        return fd;
    }
    const Guard guard;
    const int pattern = pattern_of(folder, path);
    if (pattern >= 0) settle_path(folder, path, 0);
    close_written(false);
    int fd = call();
    if (fd < 0 && errno == EMFILE && opener != Opener::kStreamAgain) {
        close_written(true);
        fd = call();
    }
    if (fd < 0) {
        if (pattern >= 0) note_refusal(pattern, flags);
        return fd;
    }
    forget_descriptor(fd);
    if (pattern >= 0) take(fd, path, flags, opener, pattern);
    return fd;
}

}  // namespace longshore::io
