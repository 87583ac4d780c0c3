#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/selection.h"
#include "base/text.h"

namespace longshore {

bool load_selection(const std::string& path, Selection* selection, std::string* error) {
    return without_throwing([&] {
        FILE* file = fopen(path.c_str(), "re");
        if (file == nullptr) {
            *error = path + ": " + strerror(errno);
            return false;
        }
        std::string text(kSelectionBytesMax + 1, '\0');  // one more, so that a longer file is seen to be
        text.resize(fread(text.data(), 1, text.size(), file));
        const int failure = ferror(file) != 0 ? errno : 0;
        fclose(file);
        if (failure != 0) {
            *error = path + ": " + strerror(failure);
            return false;
        }
        SelectionError wrong;
        if (parse_selection(text, selection, &wrong)) return true;
        *error = path + ":" + std::to_string(wrong.line) + ":" + std::to_string(wrong.column) + ": " +
                 wrong.message;
        return false;
    });
}

}  // namespace longshore
