#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace longshore {

bool read_file(const std::string& path, size_t bytes_max, std::string* text, std::string* error) {
    FILE* file = fopen(path.c_str(), "re");
    if (file == nullptr) {
        *error = path + ": " + strerror(errno);
        return false;
    }
    text->resize(bytes_max + 1);
    text->resize(fread(text->data(), 1, text->size(), file));
    const int failure = ferror(file) != 0 ? errno : 0;
    fclose(file);
    if (failure != 0) *error = path + ": " + strerror(failure);
    return failure == 0;
}

std::string read_proc(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return "";
    std::string text;
    char block[4096];
    ssize_t got = 0;
    while (text.size() < kProcBytesMax &&
           ((got = read(file, block, sizeof block)) > 0 || (got < 0 && errno == EINTR)))
        text.append(block, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    close(file);
    return got < 0 ? "" : text;
}

}  // namespace longshore
