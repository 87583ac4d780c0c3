#include "tasks/plugin.h"

#include <dlfcn.h>
#include <string.h>

#include <exception>

namespace longshore::tasks {
namespace {

// What `body` returns, which is a plug-in's.
template <class Body>
int guarded(const Body& body, std::string* error) {
    try {
        return body();
    } catch (const std::exception& thrown) {
        *error = std::string("it has thrown an exception: ") + thrown.what();
    } catch (...) {
        *error = "it has thrown an exception that is no std::exception";
    }
    return LONGSHORE_ERR_THROWN;
}

std::string fault_of(const longshore_plugin& plugin) {
    if (plugin.version != LONGSHORE_PLUGIN_VERSION)
        return "it is of version " + std::to_string(plugin.version) +
               " of longshore_plugin.h, and this Longshore takes " +
               std::to_string(LONGSHORE_PLUGIN_VERSION) + ": compile it anew";
    if (plugin.functions_count > kFunctionsMax ||
        (plugin.functions_count != 0 && plugin.functions == nullptr))
        return "its table says that it has " + std::to_string(plugin.functions_count) +
               " functions; at most " + std::to_string(kFunctionsMax) + " are possible";
    for (uint32_t i = 0; i < plugin.functions_count; ++i) {
        const longshore_function& function = plugin.functions[i];
        if (function.name == nullptr || function.run == nullptr ||
            strnlen(function.name, kNameBytes) == kNameBytes)
            return "function " + std::to_string(i) + " of its table has no name of less than " +
                   std::to_string(kNameBytes) + " letters, or no code";
    }
    return "";
}

}  // namespace

// This program has the unwinder of its compiler in it, a plug-in that throws brings another along, and both
// take part when an exception comes from there. The one here is made ready by its first exception.
static void prepare_for_exceptions() {
    try {
        throw 0;
    } catch (int) {
    }
}

int Plugin::load(const char* path, std::string* error) {
    prepare_for_exceptions();
    // Its symbols are its own: two plug-ins, or one and this program, may have functions of one name.
    void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        *error = std::string("the plug-in cannot be loaded: ") + dlerror();
        return LONGSHORE_ERR_PLUGIN;
    }
    const auto* const plugin = static_cast<const longshore_plugin*>(dlsym(handle, "longshore_plugin_table"));
    const std::string fault =
        plugin == nullptr ? "it has no longshore_plugin_table (see longshore_plugin.h)" : fault_of(*plugin);
    if (!fault.empty()) {
        *error = std::string("the plug-in ") + path + " cannot be used: " + fault;
        return LONGSHORE_ERR_PLUGIN;
    }
    plugin_ = plugin;
    names_.functions_count = plugin->functions_count;
    for (uint32_t i = 0; i < plugin->functions_count; ++i)
        memcpy(names_.names[i], plugin->functions[i].name, strlen(plugin->functions[i].name));
    return 0;
}

int Plugin::run(uint32_t function, const longshore_call& call, std::string* error) const {
    const int result = guarded([&] { return plugin_->functions[function].run(&call); }, error);
    // Negative results are Longshore's own.
    return result < 0 && error->empty() ? -result : result;
}

int Plugin::open(void** state, std::string* error) const {
    *state = nullptr;
    if (plugin_->open == nullptr) return 0;
    const int result = guarded([&] { return plugin_->open(state); }, error);
    if (result != 0 && error->empty()) *error = "its open returned " + std::to_string(result);
    return result;
}

void Plugin::close(void* state) const {
    std::string ignored;
    if (plugin_->close != nullptr) guarded([&] { return plugin_->close(state), 0; }, &ignored);
}

}  // namespace longshore::tasks
