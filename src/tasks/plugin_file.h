// Whether two nodes have the same plug-in: its file's size, and a sum over its bytes.
#pragma once

#include <cstdint>

namespace longshore::tasks {

struct PluginFile {
    uint64_t bytes = 0, hash = 0;
    bool operator==(const PluginFile&) const = default;
};
// All zero: there is no such file here (dlopen may find one elsewhere).
PluginFile look_at_plugin(const char* path);

}  // namespace longshore::tasks
