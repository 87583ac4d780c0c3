#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace longshore {
namespace {

std::string failure(const std::string& path) {
    return path + ": " + strerror(errno);
}

// /dev/stdout and its kin are links, which may lead to a file that a shell writes to.
bool names_a_stream(const std::string& path) {
    return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

// Never onto a file that is there, also where another process renames at the same time.
bool rename_to_free(const char* from, const char* to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    // Some network file systems cannot: there a look before has to do.
    struct stat status {};
    if (lstat(to, &status) != 0) return rename(from, to) == 0;
    errno = EEXIST;
    return false;
}

bool write_all(const char* path, const char* mode, const std::string& text) {
    FILE* const file = fopen(path, mode);
    if (file == nullptr) return false;
    const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
    return fclose(file) == 0 && written;
}

}  // namespace

std::string place_of_output(const std::string& path) {
    struct stat status {};
    if (names_a_stream(path)) return "";
    if (stat(path.c_str(), &status) != 0) return path;
    if (!S_ISREG(status.st_mode)) return "";
    char whole[PATH_MAX];
    return realpath(path.c_str(), whole) != nullptr ? whole : path;
}

bool keep_old_file(const std::string& path, std::string* error) {
    const std::string place = place_of_output(path);
    struct stat status {};
    if (place.empty() || stat(place.c_str(), &status) != 0 || status.st_size == 0) return true;
    for (unsigned i = 1; i <= kKeptFilesMax; ++i) {
        const std::string old = place + ".old" + (i == 1 ? "" : "." + std::to_string(i));
        if (rename_to_free(place.c_str(), old.c_str())) {
            fprintf(stderr, "longshore: %s was there already: that file is now %s\n", place.c_str(),
                    old.c_str());
            return true;
        }
        if (errno == EEXIST) continue;
        if (errno == ENOENT) return true;  // another process was quicker
        *error = failure(place);
        return false;
    }
    *error = place + ": there are " + std::to_string(kKeptFilesMax) + " older files beside it, as " + place +
             ".old; remove some";
    return false;
}

FILE* open_output_file(const std::string& path, bool append, std::string* error) {
    if (!append && !keep_old_file(path, error)) return nullptr;
    FILE* const file = fopen(path.c_str(), "a");
    if (file == nullptr) *error = failure(path);
    return file;
}

bool can_write_output_file(const std::string& path, std::string* why) {
    int failure = 0;
    struct stat status {};
    // A file that is there is renamed: for that, too, its folder has to be writable. Several processes may
    // ask at once: each tries a name of its own.
    if (const std::string place = place_of_output(path); !place.empty()) {
        std::string beside = place + ".XXXXXX";
        const int file = mkostemp(beside.data(), O_CLOEXEC);
        failure = file < 0 ? errno : 0;
        if (file >= 0) {
            close(file);
            unlink(beside.c_str());
        }
    } else if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
        failure = EISDIR;
    } else if (access(path.c_str(), W_OK) != 0) {
        failure = errno;
    }
    if (failure != 0) *why = strerror(failure);
    return failure == 0;
}

bool write_output_file(const std::string& path, const std::string& text, std::string* error) {
    const std::string place = place_of_output(path);
    const std::string partial = place.empty() ? path : place + ".partial";
    if (!write_all(partial.c_str(), place.empty() ? "a" : "w", text)) {
        *error = failure(path);
        return false;
    }
    if (place.empty()) return true;
    if (!keep_old_file(place, error)) return false;
    if (rename(partial.c_str(), place.c_str()) == 0) return true;
    *error = failure(path);
    return false;
}

}  // namespace longshore
