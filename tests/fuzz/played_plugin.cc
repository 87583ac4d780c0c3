// The plug-in of fuzz_guest: its functions touch every byte of their buffers.
#include <longshore_plugin.h>

#include <cstring>
#include <stdexcept>

namespace {

// Of all ranks: those of a stream that ends are not closed, because their process ends with it.
struct State {
    unsigned calls = 0;
} only_state;

int read(const longshore_call* call) {
    unsigned sum = ++static_cast<State*>(call->state)->calls;
    for (size_t i = 0; i < call->buffers_count; ++i)
        for (size_t at = 0; at < call->buffers[i].bytes; ++at)
            sum += static_cast<const unsigned char*>(call->buffers[i].data)[at];
    return sum == 0xffffffff;
}

int write(const longshore_call* call) {
    for (size_t i = 0; i < call->buffers_count; ++i)
        if (call->buffers[i].bytes != 0) memset(call->buffers[i].data, 7, call->buffers[i].bytes);
    return 0;
}

int give(const longshore_call* call) {
    return call->arguments_bytes == 0 ? 0 : *static_cast<const unsigned char*>(call->arguments);
}

int throw_it(const longshore_call*) {
    throw std::runtime_error("as asked");
}

int open(void** state) {
    *state = &only_state;
    return 0;
}

const longshore_function functions[] = {
    {"read", read}, {"write", write}, {"give", give}, {"throw", throw_it}};

}  // namespace

LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, sizeof functions / sizeof *functions, functions, open, nullptr};
