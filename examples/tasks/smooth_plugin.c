/* The plug-in of the example: one function, which smooths a field. */
#include <longshore_plugin.h>

static int smooth(const longshore_call* call) {
    const int rounds = *(const int*)call->arguments;
    const long n = (long)(call->buffers[0].bytes / sizeof(double));
    const double* from = call->buffers[0].data;
    double* to = call->buffers[1].data;
    if (call->buffers[1].bytes < call->buffers[0].bytes) return 1;
    for (long i = 0; i < n; ++i) to[i] = from[i];
    for (int round = 0; round < rounds; ++round)
        for (long i = 1; i + 1 < n; ++i) to[i] = 0.5 * to[i] + 0.25 * (to[i - 1] + to[i + 1]);
    return 0;
}

static const longshore_function functions[] = {{"smooth", smooth}};
LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 1, functions, 0, 0};
