// Files that the product writes where a user named one: what is there already is kept under another name, so
// that no result is lost (docs/statistics.md). Used inside foreign processes too, as settings.h.
#pragma once

#include <cstdio>
#include <string>

namespace longshore {

// The most files of one name that are kept; a result that finds them all there is not written.
constexpr unsigned kKeptFilesMax = 10'000;

// A file at `path` that is not empty gets the name PATH.old or, where that is there, PATH.old.2 and so on,
// and a line on stderr says so. Of a symbolic link that holds for the file that it leads to. Devices, pipes,
// and the standard streams by their names under /dev and /proc stay as they are. False, and why, with the
// path before it: it stays where it is.
bool keep_old_file(const std::string& path, std::string* error);

// Writes all of a file, after keep_old_file(): under the name PATH.partial first, so that a reader never sees
// half of it. False, and why, with the path before it.
bool write_output_file(const std::string& path, const std::string& text, std::string* error);

// Opens a file that is written piece by piece, each behind what is there: with `append` that is all that the
// file has, else nothing, after keep_old_file(). Null, and why, with the path before it.
FILE* open_output_file(const std::string& path, bool append, std::string* error);

// Whether write_output_file() and open_output_file() will be able to write there, for commands that take
// long: to be asked before they begin. Leaves a file as it is, and none where there was none. False, and why.
bool can_write_output_file(const std::string& path, std::string* why);

// Where keep_old_file() and write_output_file() look: the file that a link leads to. Empty for what is
// written into as it is.
std::string place_of_output(const std::string& path);

}  // namespace longshore
