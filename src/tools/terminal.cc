#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>

namespace longshore::tools {
namespace {

constexpr size_t kColumnsMin = 40;         // narrower, nothing is broken: it could not be read either
constexpr size_t kDescriptionColumn = 20;  // from here on a column has sentences
constexpr size_t kCommandIndent = 6;       // of the rest of a command
constexpr size_t kRoomMin = 24;            // that a column must have to be one

// Where the rest of a line goes on: below its last column, if that leaves half of the terminal to it, or
// enough.
size_t indent_of(const std::string& line, size_t columns) {
    const size_t first = line.find_first_not_of(' ');
    size_t indent = first;
    for (size_t gap = line.find("  ", first); gap != line.npos; gap = line.find("  ", indent)) {
        const size_t next = line.find_first_not_of(' ', gap);
        if (next == line.npos || (next > columns / 2 && next + kRoomMin > columns)) break;
        indent = next;
    }
    return indent;
}

// A command that may be copied as it stands there: where it is broken, the shell must read on.
bool is_command(const std::string& line) {
    return line.starts_with("  longshore ") && line.find("  ", 2) == line.npos;
}

// The line in pieces that fit, all but the last of them with that end and added to the text. Returns the last
// one.
std::string broken(const std::string& line, size_t columns, size_t indent, const std::string& end,
                   std::string* out) {
    std::string rest = line;
    while (rest.size() > columns) {
        size_t blank = rest.rfind(' ', columns - end.size());
        // A word that is too long for a line stays whole.
        if (blank == rest.npos || blank <= rest.find_first_not_of(' ')) blank = rest.find(' ', columns);
        const size_t next = blank == rest.npos ? rest.npos : rest.find_first_not_of(' ', blank);
        if (next == rest.npos) break;
        *out += rest.substr(0, rest.find_last_not_of(' ', blank) + 1) + end + "\n";
        rest = std::string(indent, ' ') + rest.substr(next);
    }
    return rest;
}

// Whether the next line goes on with the sentence of a line that was broken: prose, or a description of an
// option.
bool goes_on(const std::string& next, size_t indent) {
    const bool is_text = indent == 0 || indent >= kDescriptionColumn;
    return is_text && !next.empty() && next.find_first_not_of(' ') == indent &&
           next.find("  ", indent) == next.npos;
}

}  // namespace

size_t terminal_columns(FILE* file) {
    winsize size{};
    return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string wrapped(const std::string& text, size_t columns) {
    if (columns < kColumnsMin) return text;
    std::string out, kept;  // kept: the end of a line that was broken
    size_t indent = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (!kept.empty() && goes_on(line, indent)) {
            line = kept + " " + line.substr(indent);
        } else {
            if (!kept.empty()) out += kept + "\n";
            indent = line.size() <= columns ? 0
                     : is_command(line)     ? kCommandIndent
                                            : indent_of(line, columns);
        }
        kept.clear();
        if (line.size() > columns)
            kept = broken(line, columns, indent, is_command(line) ? " \\" : "", &out);
        else
            out += line + "\n";
    }
    if (!kept.empty()) out += kept + "\n";
    if (!text.ends_with('\n') && !out.empty()) out.pop_back();
    return out;
}

std::string bytes_text(uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    // What would be written as 1000 is 1 of the next.
    while (value >= 999.5) value /= 1000, ++unit;
    char text[32];
    snprintf(text, sizeof text, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : 1, value, kUnits[unit]);
    return text;
}

}  // namespace longshore::tools
