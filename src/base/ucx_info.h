// What UCX has, which it tells in words alone. For the UCX that a network part is linked with, and for one
// that is opened when the program runs: so this includes none.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace longshore {

// `print`: ucp_context_print_info(). Empty where there is no memory.
template <class Context>
std::string ucx_info(void (*print)(Context, FILE*), Context context) {
    char* text = nullptr;
    size_t bytes = 0;
    FILE* const file = open_memstream(&text, &bytes);
    if (file == nullptr) return "";
    print(context, file);
    fclose(file);
    std::string info(text, bytes);
    free(text);
    return info;
}

// Whether a transport reads and writes others' memory by its card: reliable connections (rc), or dynamic ones
// (dc).
inline bool has_rdma_transport(const std::string& info) {
    return info.find(" rc_") != info.npos || info.find(" dc_") != info.npos;
}

}  // namespace longshore
