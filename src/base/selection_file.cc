#include "base/file.h"
#include "base/selection.h"
#include "base/text.h"

namespace longshore {

bool load_selection(const std::string& path, Selection* selection, std::string* error) {
    return without_throwing([&] {
        std::string text;
        if (!read_file(path, kSelectionBytesMax, &text, error)) return false;
        SelectionError wrong;
        if (parse_selection(text, selection, &wrong)) return true;
        *error = path + ":" + std::to_string(wrong.line) + ":" + std::to_string(wrong.column) + ": " +
                 wrong.message;
        return false;
    });
}

}  // namespace longshore
