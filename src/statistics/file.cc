#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "statistics/json.h"

namespace longshore::statistics {

void write_file(const std::string& path, const std::string& text) {
    struct stat status {};
    const bool exists = stat(path.c_str(), &status) == 0;
    // Devices and pipes are written into: nothing may take their place.
    const bool is_file = !exists || S_ISREG(status.st_mode);
    // What is there is not lost: it may be the result of hours.
    const std::string old = path + ".old";
    if (exists && is_file && status.st_size > 0 && rename(path.c_str(), old.c_str()) == 0)
        fprintf(stderr, "longshore: %s was there already: that file is now %s\n", path.c_str(), old.c_str());
    const std::string partial = is_file ? path + ".partial" : path;
    FILE* file = fopen(partial.c_str(), "w");
    bool ok = file && fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file) ok = fclose(file) == 0 && ok;
    if (is_file) ok = ok && rename(partial.c_str(), path.c_str()) == 0;
    if (!ok) fprintf(stderr, "longshore: cannot write %s: %s\n", path.c_str(), strerror(errno));
}

}  // namespace longshore::statistics
