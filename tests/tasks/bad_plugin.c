/* Plug-ins that cannot be used, by what BAD says. */
#include <longshore_plugin.h>

static int nothing(const longshore_call* call) {
    (void)call;
    return 0;
}
static int refuse(void** state) {
    (void)state;
    return 9;
}
static int end(void** state) {
    (void)state;
    __builtin_trap();
}
static const longshore_function functions[] = {{"nothing", nothing}};

#if BAD == 1 /* of another version */
LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION + 1, 1, functions, 0, 0};
#elif BAD == 2 /* no table */
void longshore_plugin_tabel(void) { (void)functions, (void)refuse, (void)end; }
#elif BAD == 3 /* its open fails */
LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 1, functions, refuse, 0};
#elif BAD == 4 /* its open crashes */
LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 1, functions, end, 0};
#elif BAD == 5 /* too many functions */
LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 1000, functions, 0, 0};
#endif
