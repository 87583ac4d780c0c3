// Test equipment, and nothing of a product: makes UCX export memory where no card can. Linked with
// -Wl,--wrap= in front of UCX's functions (CMakeLists.txt). What is exported says which process has the
// memory at which address; an alias is a second mapping of the same pages, found by /proc/PID/map_files, and
// a get that names it is carried out there by UCX as any other. An address that is not within the alias that
// the get names ends the process: a card would find nothing there either.
#include "exported_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <map>
#include <set>

extern "C" {
ucs_status_t __real_ucp_init_version(unsigned, unsigned, const ucp_params_t*, const ucp_config_t*,
                                     ucp_context_h*);
ucs_status_t __real_ucp_mem_map(ucp_context_h, const ucp_mem_map_params_t*, ucp_mem_h*);
ucs_status_t __real_ucp_mem_unmap(ucp_context_h, ucp_mem_h);
ucs_status_t __real_ucp_mem_query(ucp_mem_h, ucp_mem_attr_t*);
ucs_status_ptr_t __real_ucp_get_nbx(ucp_ep_h, void*, size_t, uint64_t, ucp_rkey_h,
                                    const ucp_request_param_t*);
}

namespace {

constexpr uint64_t kMagic = 0x74736574'74736574;
constexpr uint64_t kPage = 4096;

struct Record {
    uint64_t magic, pid, address, bytes;
};
struct Alias {
    uint64_t address = 0, bytes = 0;  // as its owner has them
    std::byte* mapped = nullptr;      // whole pages
    uint64_t mapped_bytes = 0;
    std::byte* here = nullptr;
};
std::map<ucp_mem_h, Alias> aliases;
std::map<ucp_mem_h, Record> opened;
std::set<ucp_context_h> able;  // contexts that were asked for it
std::map<ucp_mem_h, ucp_context_h> context_of;

// The mapping of that process that has all of it, and where it begins there. -1: there is none.
int open_mapping(const Record& record, uint64_t* begin) {
    char name[128];
    snprintf(name, sizeof name, "/proc/%llu/maps", static_cast<unsigned long long>(record.pid));
    FILE* const maps = fopen(name, "re");
    int file = -1;
    char line[512];
    while (maps != nullptr && file < 0 && fgets(line, sizeof line, maps) != nullptr) {
        unsigned long long first = 0, last = 0;
        if (sscanf(line, "%llx-%llx", &first, &last) != 2 || record.address < first ||
            record.address + record.bytes > last)
            continue;
        snprintf(name, sizeof name, "/proc/%llu/map_files/%llx-%llx",
                 static_cast<unsigned long long>(record.pid), first, last);
        file = open(name, O_RDWR | O_CLOEXEC);
        unsigned long long offset = 0;
        sscanf(line, "%*x-%*x %*s %llx", &offset);
        *begin = first - offset;
        if (file < 0) break;
    }
    if (maps != nullptr) fclose(maps);
    return file;
}

bool map_alias(const Record& record, Alias* alias) {
    uint64_t begin = 0;
    const int file = open_mapping(record, &begin);
    if (file < 0) return false;
    const uint64_t inside = record.address % kPage;
    alias->address = record.address;
    alias->bytes = record.bytes;
    alias->mapped_bytes = inside + record.bytes;
    void* const mapped = mmap(nullptr, alias->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                              static_cast<off_t>(record.address - inside - begin));
    close(file);
    if (mapped == MAP_FAILED) return false;
    alias->mapped = static_cast<std::byte*>(mapped);
    alias->here = alias->mapped + inside;
    return true;
}

}  // namespace

namespace longshore::test {
ExportedMemoryRules exported_memory_rules{LONGSHORE_TEST_EXPORTS, LONGSHORE_TEST_IMPORTS};
uint64_t aliases_made = 0, gets_to_aliases = 0;

bool can_map_files() {
    void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const Record record{kMagic, static_cast<uint64_t>(getpid()), reinterpret_cast<uint64_t>(page), kPage};
    uint64_t begin = 0;
    const int file = open_mapping(record, &begin);
    munmap(page, kPage);
    if (file >= 0) close(file);
    return file >= 0;
}
}  // namespace longshore::test

using namespace longshore::test;

extern "C" {

// Asked for the feature, UCX takes no transport but those that a card is needed for.
ucs_status_t __wrap_ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* params,
                                     const ucp_config_t* config, ucp_context_h* out) {
    ucp_params_t without = *params;
    without.features &= ~uint64_t{UCP_FEATURE_EXPORTED_MEMH};
    const ucs_status_t status = __real_ucp_init_version(major, minor, &without, config, out);
    if (status == UCS_OK && without.features != params->features) able.insert(*out);
    return status;
}

ucs_status_t __wrap_ucp_memh_pack(ucp_mem_h memory, const ucp_memh_pack_params_t* params, void** packed,
                                  size_t* bytes) {
    const auto found = opened.find(memory);
    if ((params->field_mask & UCP_MEMH_PACK_PARAM_FIELD_FLAGS) == 0 ||
        params->flags != UCP_MEMH_PACK_FLAG_EXPORT || found == opened.end() ||
        !able.contains(context_of[memory]))
        abort();
    if (found->second.bytes > exported_memory_rules.exports) return UCS_ERR_UNSUPPORTED;
    *bytes = sizeof found->second;
    *packed = malloc(*bytes);
    memcpy(*packed, &found->second, *bytes);
    return UCS_OK;
}

void __wrap_ucp_memh_buffer_release(void* packed, const ucp_memh_buffer_release_params_t*) {
    free(packed);
}

ucs_status_t __wrap_ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t* params, ucp_mem_h* out) {
    if ((params->field_mask & UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER) == 0) {
        const ucs_status_t status = __real_ucp_mem_map(context, params, out);
        if (status != UCS_OK) return status;
        context_of[*out] = context;
        opened[*out] = {kMagic, static_cast<uint64_t>(getpid()), reinterpret_cast<uint64_t>(params->address),
                        params->length};
        return status;
    }
    if (!able.contains(context)) abort();
    Record record;
    memcpy(&record, params->exported_memh_buffer, sizeof record);
    Alias alias;
    if (exported_memory_rules.imports == kAborts) abort();
    if (record.magic != kMagic || record.bytes > exported_memory_rules.imports || !map_alias(record, &alias))
        return UCS_ERR_UNREACHABLE;
    ucp_mem_map_params_t own{};
    own.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    own.address = alias.here;
    own.length = alias.bytes;
    const ucs_status_t status = __real_ucp_mem_map(context, &own, out);
    if (status != UCS_OK) return status;
    aliases[*out] = alias;
    ++aliases_made;
    return UCS_OK;
}

ucs_status_t __wrap_ucp_mem_unmap(ucp_context_h context, ucp_mem_h memory) {
    const ucs_status_t status = __real_ucp_mem_unmap(context, memory);
    opened.erase(memory);
    context_of.erase(memory);
    if (const auto found = aliases.find(memory); found != aliases.end()) {
        munmap(found->second.mapped, found->second.mapped_bytes);
        aliases.erase(found);
    }
    return status;
}

ucs_status_t __wrap_ucp_mem_query(ucp_mem_h memory, ucp_mem_attr_t* out) {
    const ucs_status_t status = __real_ucp_mem_query(memory, out);
    if (const auto found = aliases.find(memory); found != aliases.end())
        out->address = reinterpret_cast<void*>(found->second.address);
    return status;
}

ucs_status_ptr_t __wrap_ucp_get_nbx(ucp_ep_h endpoint, void* to, size_t bytes, uint64_t from, ucp_rkey_h key,
                                    const ucp_request_param_t* param) {
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) != 0) {
        const Alias& alias = aliases.at(param->memh);
        const uint64_t offset = reinterpret_cast<uint64_t>(to) - alias.address;
        if (offset > alias.bytes || bytes > alias.bytes - offset) abort();
        to = alias.here + offset;
        ++gets_to_aliases;
    }
    return __real_ucp_get_nbx(endpoint, to, bytes, from, key, param);
}

}  // extern "C"
