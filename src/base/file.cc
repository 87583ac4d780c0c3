#include "base/file.h"

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

}  // namespace longshore
