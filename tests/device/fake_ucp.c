/* Stands in for libucp.so.0 in a test of longshore-device: a card that exports memory, one block at a time,
 * and that says no to whatever a program does wrong. The environment variable FAKE_UCP_REFUSES is the size
 * from which on it refuses. */
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

static int config, context, memory, packed;
static size_t mapped;

ucs_status_t ucp_config_read(const char* prefix, const char* file, ucp_config_t** out) {
    if (strcmp(prefix, "LONGSHORE") != 0 || file != NULL) abort();
    *out = (ucp_config_t*)&config;
    return UCS_OK;
}

void ucp_config_release(ucp_config_t* of) {
    if (of != (ucp_config_t*)&config) abort();
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* params,
                              const ucp_config_t* with, ucp_context_h* out) {
    if (major != 1 || minor > 15 || with != (const ucp_config_t*)&config) abort();
    if ((params->features & UCP_FEATURE_EXPORTED_MEMH) == 0) abort();
    *out = (ucp_context_h)&context;
    return UCS_OK;
}

void ucp_cleanup(ucp_context_h of) {
    if (of != (ucp_context_h)&context || mapped != 0) abort();
}

ucs_status_t ucp_mem_map(ucp_context_h in, const ucp_mem_map_params_t* params, ucp_mem_h* out) {
    if (in != (ucp_context_h)&context || params->address == NULL || params->length == 0 || mapped != 0)
        abort();
    mapped = params->length;
    *out = (ucp_mem_h)&memory;
    return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h in, ucp_mem_h of) {
    if (in != (ucp_context_h)&context || of != (ucp_mem_h)&memory || mapped == 0) abort();
    mapped = 0;
    return UCS_OK;
}

ucs_status_t ucp_memh_pack(ucp_mem_h of, const ucp_memh_pack_params_t* params, void** out, size_t* bytes) {
    const char* limit = getenv("FAKE_UCP_REFUSES");
    if (of != (ucp_mem_h)&memory || mapped == 0 || params->field_mask != UCP_MEMH_PACK_PARAM_FIELD_FLAGS ||
        params->flags != UCP_MEMH_PACK_FLAG_EXPORT)
        abort();
    if (limit != NULL && mapped >= strtoul(limit, NULL, 10)) return UCS_ERR_UNSUPPORTED;
    *out = &packed;
    *bytes = sizeof packed;
    return UCS_OK;
}

void ucp_memh_buffer_release(void* of, const ucp_memh_buffer_release_params_t* params) {
    if (of != &packed || params == NULL || params->field_mask != 0) abort();
}

const char* ucs_status_string(ucs_status_t status) {
    return status == UCS_ERR_UNSUPPORTED ? "Unsupported operation" : "something else";
}
