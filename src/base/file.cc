#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
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

void wait_until_read(int file, int limit_s) {
    constexpr int kLooksPerS = 100;
    constexpr timespec kPause{0, 1'000'000'000 / kLooksPerS};
    struct stat what {};
    if (fstat(file, &what) != 0 || !S_ISFIFO(what.st_mode)) return;
    const auto is_unread = [file] {
        int bytes = 0;
        pollfd end{file, 0, 0};  // POLLERR: no reader
        return ioctl(file, FIONREAD, &bytes) == 0 && bytes > 0 && poll(&end, 1, 0) == 0;
    };
    for (int i = 0; i < limit_s * kLooksPerS && is_unread(); ++i) nanosleep(&kPause, nullptr);
}

}  // namespace longshore
