// Libraries that are opened when the program runs: it is to start without them.
#pragma once

#include <dlfcn.h>

#include <cstring>

namespace longshore::device {

// Sets `function` to what an opened library has by that name; null and false: nothing.
template <class F>
bool find_function(void* library, const char* name, F* function) {
    void* const at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at != nullptr;
}

}  // namespace longshore::device
