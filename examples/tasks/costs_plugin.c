/* Functions that do next to nothing, to see what handing them over costs (costs.c). */
#include <longshore_plugin.h>
#include <string.h>

static int empty(const longshore_call* call) {
    (void)call;
    return 0;
}

static int copy(const longshore_call* call) {
    memcpy(call->buffers[1].data, call->buffers[0].data, call->buffers[0].bytes);
    return 0;
}

static int copy_often(const longshore_call* call) {
    const int rounds = *(const int*)call->arguments;
    for (int i = 0; i < rounds; ++i) copy(call);
    return 0;
}

static const longshore_function functions[] = {{"empty", empty}, {"copy", copy}, {"copy_often", copy_often}};
LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 3, functions, 0, 0};
