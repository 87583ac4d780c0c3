#include "device/exporting.h"

#ifdef LONGSHORE_UCX_EXPORTS
#include <ucp/api/ucp.h>

#include <vector>

#include "device/clock.h"
#include "device/library.h"

namespace longshore::device {
namespace {

constexpr uint64_t kSizes[] = {4096, 64 * 1024, 1 << 20, 16 << 20, 64 << 20};
constexpr unsigned kFirstMinor = 15;  // the release 1.15 is the first that exports

// The few functions of UCX that are needed, found when the program runs.
class Exporter {
  public:
    ~Exporter() {
        if (context_ != nullptr) cleanup_(context_);  // the library stays: UCX starts threads of its own
    }

    // "" or why nothing can be exported.
    std::string open() {
        void* const library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return "libucp.so.0 is not there";
        const auto find = [&](const char* name, auto* function) {
            return find_function(library, name, function);
        };
        if (!find("ucp_memh_pack", &pack_) || !find("ucp_memh_buffer_release", &release_))
            return "this UCX exports no memory: 1.15 or newer can";
        ucp_config_t* config = nullptr;
        decltype(&::ucp_config_read) read = nullptr;
        decltype(&::ucp_config_release) release_config = nullptr;
        decltype(&::ucp_init_version) init = nullptr;
        const bool found = find("ucp_config_read", &read) && find("ucp_config_release", &release_config) &&
                           find("ucp_init_version", &init) && find("ucp_cleanup", &cleanup_) &&
                           find("ucp_mem_map", &map_) && find("ucp_mem_unmap", &unmap_) &&
                           find("ucs_status_string", &text_of_);
        if (!found) return "libucp.so.0 lacks functions";
        // As service processes have it: LONGSHORE_UCX_NET_DEVICES and others choose.
        if (read("LONGSHORE", nullptr, &config) != UCS_OK) return "UCX's settings cannot be read";
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA | UCP_FEATURE_EXPORTED_MEMH;
        const ucs_status_t status = init(1, kFirstMinor, &params, config, &context_);
        release_config(config);
        return status == UCS_OK ? "" : std::string("UCX finds no card that can: ") + text_of_(status);
    }

    // Makes memory known, exports it and takes both back. Adds what the export took. "" or what went wrong.
    std::string sample(void* at, uint64_t bytes, std::vector<double>* us) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = at;
        params.length = bytes;
        ucp_mem_h memory = nullptr;
        if (const ucs_status_t status = map_(context_, &params, &memory); status != UCS_OK)
            return said("makes no", bytes, status);
        ucp_memh_pack_params_t how{};
        how.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS;
        how.flags = UCP_MEMH_PACK_FLAG_EXPORT;
        void* packed = nullptr;
        size_t packed_bytes = 0;
        const uint64_t begin = now_ns();
        const ucs_status_t status = pack_(memory, &how, &packed, &packed_bytes);
        const uint64_t end = now_ns();
        const ucp_memh_buffer_release_params_t none{};
        if (status == UCS_OK) release_(packed, &none);
        unmap_(context_, memory);
        if (status != UCS_OK) return said("exports no", bytes, status);
        us->push_back(static_cast<double>(end - begin) / 1000);
        return "";
    }

  private:
    std::string said(const char* what, uint64_t bytes, ucs_status_t status) const {
        return std::string("UCX ") + what + " memory of " + std::to_string(bytes) +
               " bytes: " + text_of_(status);
    }

    decltype(&::ucp_cleanup) cleanup_ = nullptr;
    decltype(&::ucp_mem_map) map_ = nullptr;
    decltype(&::ucp_mem_unmap) unmap_ = nullptr;
    decltype(&::ucp_memh_pack) pack_ = nullptr;
    decltype(&::ucp_memh_buffer_release) release_ = nullptr;
    decltype(&::ucs_status_string) text_of_ = nullptr;
    ucp_context_h context_ = nullptr;
};

}  // namespace

void measure_exporting(const Effort& effort, const Report& report, const Tell& left_out) {
    const auto say = [&](const std::string& why) { left_out("exporting memory: " + why); };
    Exporter exporter;
    if (const std::string why = exporter.open(); !why.empty()) return say(why);
    std::vector<char> memory(kSizes[effort.quick ? 2 : std::size(kSizes) - 1], 1);
    for (const uint64_t bytes : kSizes) {
        if (bytes > memory.size()) break;
        Row row{"export memory", "us", bytes, 1, {}};
        for (int r = -1; r < effort.network_repeats; ++r) {  // the first is not counted
            const std::string why = exporter.sample(memory.data(), bytes, &row.samples);
            if (!why.empty()) return say(why);
            if (r < 0) row.samples.clear();
        }
        report(std::move(row));
    }
}

}  // namespace longshore::device

#else  // built where UCX's headers are not, or are older

namespace longshore::device {

void measure_exporting(const Effort&, const Report&, const Tell& left_out) {
    left_out("exporting memory: this longshore-device was built without UCX 1.15 or newer");
}

}  // namespace longshore::device
#endif
