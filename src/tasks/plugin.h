// A plug-in as this process has it loaded, and its functions called without letting an exception out. It is
// never unloaded: what it has left behind (threads, handlers) may still use it. One thread.
#pragma once

#include <string>

#include "longshore_plugin.h"
#include "tasks/control.h"

namespace longshore::tasks {

class Plugin {
  public:
    // 0 or LONGSHORE_ERR_PLUGIN, with the reason.
    int load(const char* path, std::string* error);
    const PluginTable& table() const { return names_; }

    // The function's result or LONGSHORE_ERR_THROWN, with what was thrown.
    int run(uint32_t function, const longshore_call& call, std::string* error) const;
    // 0, or not, with the reason.
    int open(void** state, std::string* error) const;
    void close(void* state) const;

  private:
    const longshore_plugin* plugin_ = nullptr;
    PluginTable names_;
};

}  // namespace longshore::tasks
