#include "fabric/network.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/library_folders.h"
#include "base/little_endian.h"
#include "fabric/tcp/addresses.h"

namespace longshore {

namespace {
const char* file_of(NetworkKind kind) {
    return kind == NetworkKind::kTcp ? "longshore-tcp.so" : "longshore-ucx.so";
}
}  // namespace

const char* build_name() {
    return LONGSHORE_BUILD;
}

std::string find_network(NetworkKind kind, const std::string& directory) {
    if (const char* file = getenv("LONGSHORE_INTERNAL_NETWORK"); file != nullptr && *file != 0) return file;
    for (const char* folder : kLibraryFolders) {
        std::string file = directory + "../" + folder + "/" + file_of(kind);
        if (access(file.c_str(), R_OK) == 0) return file;
    }
    const std::string beside = directory + file_of(kind);
    return access(beside.c_str(), R_OK) == 0 ? beside : "";
}

const NetworkPart* load_network(const std::string& file, std::string* error) {
    const auto fail = [&](const std::string& why) {
        *error = "the network between machines cannot be used: " + why;
        return nullptr;
    };
    if (file.empty())
        return fail("its part is not there (built without OpenSSL or UCX: libssl-dev, libucx-dev)");
    void* const part = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (part == nullptr) return fail(dlerror());
    const auto* network = static_cast<const NetworkPart*>(dlsym(part, kNetworkSymbol));
    if (network == nullptr || strcmp(network->build, build_name()) != 0 || network->layout != kNetworkLayout)
        return fail(file + " is of another build");
    return network;
}

const NetworkPart* load_own_network(NetworkKind kind, std::string* error) {
    char path[4096] = {};
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0) path[0] = 0;
    const std::string program = path;
    return load_network(find_network(kind, program.substr(0, program.rfind('/') + 1)), error);
}

bool has_rdma_device() {
    DIR* const devices = opendir("/sys/class/infiniband");
    if (devices == nullptr) return false;
    bool found = false;
    while (const dirent* entry = readdir(devices)) found |= entry->d_name[0] != '.';
    closedir(devices);
    return found;
}

namespace {

std::unique_ptr<Network> open_kind(NetworkKind kind, const NetworkSettings& settings, PortShare share,
                                   std::string* error) {
    const NetworkPart* const part = load_own_network(kind, error);
    std::unique_ptr<Network> network =
        part != nullptr ? part->open(settings, std::move(share), error) : nullptr;
    if (!network && error->empty()) *error = "the network between machines cannot be used";
    return network;
}

// Of addresses that hold both.
struct EitherBook {
    ServiceBook tcp, ucx;
    bool rdma = true;  // all service processes have an address of UCX

    bool split(const ServiceBook& book) {
        for (const auto& node : book) {
            tcp.emplace_back(), ucx.emplace_back();
            for (const auto& service : node) {
                std::vector<std::vector<std::byte>> both;
                if (!split_addresses(service, 2, &both)) return false;
                rdma &= !both[1].empty();
                tcp.back().push_back(std::move(both[0]));
                ucx.back().push_back(std::move(both[1]));
            }
        }
        return true;
    }
};

// UCX for those who all have RDMA, else TCP. An address holds both, and the one of UCX is empty where there
// is none.
class EitherNetwork : public Network {
  public:
    EitherNetwork(std::unique_ptr<Network> tcp, std::unique_ptr<Network> ucx)
        : tcp_(std::move(tcp)), ucx_(std::move(ucx)) {
        append_address(tcp_ ? tcp_->address() : std::span<const std::byte>{}, &address_);
        append_address(ucx_ ? ucx_->address() : std::span<const std::byte>{}, &address_);
    }
    std::span<const std::byte> address() const override { return address_; }
    std::unique_ptr<Fabric> make_fabric(NetworkOptions options, std::unique_ptr<ShmFabric> local,
                                        std::string* error) override {
        EitherBook either;
        if (!either.split(options.book)) {
            *error = "the address of a service process is none";
            return nullptr;
        }
        const bool rdma = either.rdma;
        options.book = std::move(rdma ? either.ucx : either.tcp);
        // What is not used listens no longer.
        (rdma ? tcp_ : ucx_).reset();
        if (!rdma && !tcp_) {
            *error = "the node's port for TCP is closed";
            return nullptr;
        }
        return (rdma ? ucx_ : tcp_)->make_fabric(std::move(options), std::move(local), error);
    }

  private:
    std::unique_ptr<Network> tcp_, ucx_;
    std::vector<std::byte> address_;
};

}  // namespace

bool may_use_tcp(const NetworkSettings& settings, bool for_host_memory) {
    const char* const forced = getenv("LONGSHORE_INTERNAL_NETWORK");
    return !for_host_memory && settings.choice != NetworkChoice::kUcx && (forced == nullptr || *forced == 0);
}

std::unique_ptr<Network> open_own_network(const NetworkSettings& settings, bool for_host_memory,
                                          PortShare share, std::string* error) {
    if (!may_use_tcp(settings, for_host_memory)) return open_kind(NetworkKind::kUcx, settings, {}, error);
    // A service process that is started again finds the port closed if the job has chosen UCX.
    const bool closed = !share.streams && settings.choice == NetworkChoice::kAuto && has_rdma_device();
    std::unique_ptr<Network> tcp =
        closed ? nullptr : open_kind(NetworkKind::kTcp, settings, std::move(share), error);
    if ((!tcp && !closed) || settings.choice == NetworkChoice::kTcp) return tcp;
    std::string no_ucx;
    std::unique_ptr<Network> ucx =
        has_rdma_device() ? open_kind(NetworkKind::kUcx, settings, {}, &no_ucx) : nullptr;
    if (!tcp && !ucx) {
        *error = no_ucx;
        return nullptr;
    }
    return std::make_unique<EitherNetwork>(std::move(tcp), std::move(ucx));
}

bool look_at_network(const NetworkSettings& settings, bool for_host_memory, const ServiceBook& book,
                     size_t node, NetworkKind* kind, uint32_t* mbps) {
    *kind = NetworkKind::kUcx;
    *mbps = 0;
    if (!may_use_tcp(settings, for_host_memory)) return true;
    EitherBook either;
    if (settings.choice == NetworkChoice::kTcp) {
        either.rdma = false;
        either.tcp = book;
    } else if (!either.split(book)) {
        return false;
    }
    if (either.rdma) return true;
    *kind = NetworkKind::kTcp;
    const auto& own_services = either.tcp[node];
    const auto& next_services = either.tcp[(node + 1) % either.tcp.size()];
    std::vector<TcpAddress> own, next;
    uint16_t port = 0;
    if (own_services.empty() || next_services.empty() || !decode_addresses(own_services[0], &own, &port) ||
        !decode_addresses(next_services[0], &next, &port))
        return false;
    order_addresses(next, &own);
    *mbps = own.front().speed_mbps == kBridgeMbps ? 0 : own.front().speed_mbps;
    return true;
}

uint64_t count_others(const NetworkOptions& options) {
    uint64_t others = 0;
    for (size_t node = 0; node < options.nodes.size(); ++node)
        others += node != options.self.node.value ? options.nodes[node].services : 0u;
    return others;
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
