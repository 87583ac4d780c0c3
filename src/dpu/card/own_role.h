// By what a process of longshored becomes another role of it: the name of the program that runs, so that it
// is this one although its file may have been replaced, and although its folder may be closed to the user
// that this process has become. An emulated program has no such name and says by what it is started.
#pragma once

#include <cstdlib>

namespace longshore {

inline const char* own_role_program() {
    const char* const named = getenv("LONGSHORE_INTERNAL_PROGRAM");
    return named != nullptr && *named != 0 ? named : "/proc/self/exe";
}

}  // namespace longshore
