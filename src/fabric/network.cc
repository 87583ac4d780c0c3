#include "fabric/network.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/little_endian.h"

namespace longshore {

const char* build_name() {
    return LONGSHORE_BUILD;
}

std::string find_network(const std::string& directory) {
    if (const char* file = getenv("LONGSHORE_INTERNAL_NETWORK"); file != nullptr && *file != 0) return file;
    for (const char* folder : {"../lib/", ""}) {
        std::string file = directory + folder + kNetworkFile;
        if (access(file.c_str(), R_OK) == 0) return file;
    }
    return "";
}

const NetworkPart* load_network(const std::string& file, std::string* error) {
    const auto fail = [&](const std::string& why) {
        *error = "the network between machines cannot be used: " + why;
        return nullptr;
    };
    if (file.empty())
        return fail(std::string(kNetworkFile) +
                    " is not there (build with UCX: libucx-dev or LONGSHORE_UCX_ROOT)");
    void* const part = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (part == nullptr) return fail(dlerror());
    const auto* network = static_cast<const NetworkPart*>(dlsym(part, kNetworkSymbol));
    if (network == nullptr || strcmp(network->build, build_name()) != 0 || network->layout != kNetworkLayout)
        return fail(file + " is of another build");
    return network;
}

const NetworkPart* load_own_network(std::string* error) {
    char path[4096] = {};
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0) path[0] = 0;
    const std::string program = path;
    return load_network(find_network(program.substr(0, program.rfind('/') + 1)), error);
}

void append_address(std::span<const std::byte> address, std::vector<std::byte>* all) {
    std::byte length[2];
    Writer(length, sizeof length).put(static_cast<uint16_t>(address.size()));
    all->insert(all->end(), length, length + sizeof length);
    all->insert(all->end(), address.begin(), address.end());
}

bool split_addresses(std::span<const std::byte> all, size_t count, std::vector<std::vector<std::byte>>* out) {
    out->clear();
    Reader r(all);
    while (out->size() < count) {
        const auto length = r.get<uint16_t>();
        const std::span<const std::byte> address = r.get_bytes(length);
        if (!r.ok() || length > kAddressBytesMax) return false;
        out->emplace_back(address.begin(), address.end());
    }
    return r.rest().empty();
}

}  // namespace longshore
