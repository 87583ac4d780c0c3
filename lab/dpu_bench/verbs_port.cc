#include "dpu_bench/verbs_port.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>

namespace longshore::dpu_bench {
namespace {

struct Wanted {
    std::string device;  // "": any
    int port = 0;        // 0: any
};

Wanted parse(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return {text, 0};
    const std::string number = text.substr(colon + 1);
    const bool is_number =
        !number.empty() && number.size() <= 3 && number.find_first_not_of("0123456789") == number.npos;
    const int port = is_number ? std::stoi(number) : 0;
    if (colon == 0 || port < 1 || port > 255)
        throw std::runtime_error("--device " + text + ": NAME or NAME:PORT, ports count from 1");
    return {text.substr(0, colon), port};
}

// A routable address before one of the link only, RoCE 2 before RoCE 1. InfiniBand's first one is always
// right.
int rate(const ibv_gid_entry& entry) {
    static constexpr std::uint8_t kIpv4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (entry.gid_type == IBV_GID_TYPE_IB) return 4;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
    if (std::memcmp(entry.gid.raw, kIpv4, sizeof kIpv4) == 0) return 3;
    return entry.gid.raw[0] == 0xfe ? 1 : 2;
}

void choose_address(Port* port) {
    int best = -1;
    for (int i = 0; i < port->attributes.gid_tbl_len; ++i) {
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(port->context.get(), port->number, std::uint32_t(i), &entry, 0) != 0) continue;
        if (rate(entry) <= best) continue;
        best = rate(entry);
        port->gid_index = i;
        port->gid = entry.gid;
    }
    if (best < 0 && port->needs_global_address())
        throw std::runtime_error("port " + std::to_string(port->number) + " of " + port->device +
                                 " has no address: give its network device one ('ip address add')");
}

// Its active port, the wanted one if one is.
std::optional<Port> try_device(ibv_device* device, int wanted) {
    Port port;
    port.device = ibv_get_device_name(device);
    port.context.reset(ibv_open_device(device));
    if (!port.context)
        throw std::runtime_error("cannot open the RDMA device " + port.device + ": " + std::strerror(errno) +
                                 "; may this user read and write /dev/infiniband?");
    ibv_device_attr attributes{};
    ibv_query_device(port.context.get(), &attributes);
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
        if (wanted != 0 && number != wanted) continue;
        if (ibv_query_port(port.context.get(), std::uint8_t(number), &port.attributes) != 0) continue;
        if (port.attributes.state != IBV_PORT_ACTIVE) continue;
        port.number = std::uint8_t(number);
        return port;
    }
    return std::nullopt;
}

std::string names_of(std::span<ibv_device*> devices) {
    std::string names;
    for (ibv_device* device : devices)
        names += (names.empty() ? "" : ", ") + std::string(ibv_get_device_name(device));
    return names;
}

struct FreeList {
    void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};

}  // namespace

Port open_port(const std::string& text) {
    const Wanted wanted = parse(text);
    int count = 0;
    const std::unique_ptr<ibv_device*, FreeList> list(ibv_get_device_list(&count));
    if (!list || count == 0)
        throw std::runtime_error(
            "there is no RDMA device here (ibv_devices lists them); --mover process_vm needs none");
    const std::span<ibv_device*> devices(list.get(), std::size_t(count));
    bool found = false;
    for (ibv_device* device : devices) {
        if (!wanted.device.empty() && wanted.device != ibv_get_device_name(device)) continue;
        found = true;
        if (std::optional<Port> port = try_device(device, wanted.port)) {
            choose_address(&*port);
            return std::move(*port);
        }
    }
    if (!found)
        throw std::runtime_error("there is no RDMA device " + wanted.device + " here, but " +
                                 names_of(devices));
    throw std::runtime_error(
        "no port of " + (text.empty() ? names_of(devices) : text) +
        " is active: ibv_devinfo shows their states; is the cable in, and its network device up?");
}

}  // namespace longshore::dpu_bench
