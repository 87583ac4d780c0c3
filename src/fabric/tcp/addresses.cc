#include "fabric/tcp/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/little_endian.h"

namespace longshore {
namespace {

constexpr uint8_t kAddressesVersion = 1;

uint32_t read_number(const char* interface, const char* what) {
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%.32s/%s", interface, what);
    FILE* const file = fopen(path, "re");
    if (file == nullptr) return 0;
    long value = 0;
    const bool found = fscanf(file, "%ld", &value) == 1;
    fclose(file);
    return found && value > 0 ? static_cast<uint32_t>(value) : 0;
}

uint32_t speed_of(const char* interface) {
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%.32s/bridge", interface);
    return access(path, F_OK) == 0 ? kBridgeMbps : read_number(interface, "speed");
}

bool is_named(const std::string& interfaces, const char* name) {
    return ("," + interfaces + ",").find("," + std::string(name) + ",") != std::string::npos;
}

uint8_t prefix_of(const uint8_t* mask, size_t bytes) {
    uint8_t bits = 0;
    for (size_t i = 0; i < bytes; ++i) bits = static_cast<uint8_t>(bits + __builtin_popcount(mask[i]));
    return bits;
}

bool from_system(const ifaddrs& entry, TcpAddress* out) {
    if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return false;
    *out = {};
    if (entry.ifa_addr->sa_family == AF_INET) {
        memcpy(out->bytes, &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr, 4);
        out->prefix = prefix_of(reinterpret_cast<const uint8_t*>(
                                    &reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask)->sin_addr),
                                4);
    } else if (entry.ifa_addr->sa_family == AF_INET6) {
        const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&address)) return false;  // means nothing without an interface
        out->v6 = true;
        memcpy(out->bytes, &address, 16);
        out->prefix =
            prefix_of(reinterpret_cast<const sockaddr_in6*>(entry.ifa_netmask)->sin6_addr.s6_addr, 16);
    } else {
        return false;
    }
    out->speed_mbps = speed_of(entry.ifa_name);
    return true;
}

bool same_network(const TcpAddress& a, const TcpAddress& b) {
    if (a.v6 != b.v6) return false;
    const unsigned bits = std::min(a.prefix, b.prefix);
    if (memcmp(a.bytes, b.bytes, bits / 8) != 0) return false;
    return bits % 8 == 0 || ((a.bytes[bits / 8] ^ b.bytes[bits / 8]) >> (8 - bits % 8)) == 0;
}

}  // namespace

std::vector<TcpAddress> own_addresses(const std::string& interfaces, std::string* error) {
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) {
        *error = std::string("the network's interfaces cannot be listed: ") + strerror(errno);
        return {};
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
    std::vector<TcpAddress> found, loopback;
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
        TcpAddress address;
        if ((entry->ifa_flags & IFF_UP) == 0 || !from_system(*entry, &address)) continue;
        const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
        if (!interfaces.empty() && !is_named(interfaces, entry->ifa_name)) continue;
        (is_loopback && interfaces.empty() ? loopback : found).push_back(address);
    }
    if (found.empty()) found = std::move(loopback);
    if (found.size() > kTcpAddressesMax) {
        std::stable_sort(found.begin(), found.end(),
                         [](const auto& a, const auto& b) { return a.speed_mbps > b.speed_mbps; });
        found.resize(kTcpAddressesMax);
    }
    if (found.empty())
        *error = interfaces.empty() ? "this machine has no network interface that is up"
                                    : "no interface of LONGSHORE_NETWORK_INTERFACES (" + interfaces +
                                          ") is up with an address on this machine; 'ip address' lists them";
    return found;
}

std::vector<std::byte> encode_addresses(std::span<const TcpAddress> addresses, uint16_t port) {
    std::byte bytes[4 + kTcpAddressesMax * 24];
    Writer w(bytes, sizeof bytes);
    w.put(kAddressesVersion);
    w.put(port);
    w.put(static_cast<uint8_t>(std::min(addresses.size(), kTcpAddressesMax)));
    for (const TcpAddress& a : addresses.first(std::min(addresses.size(), kTcpAddressesMax))) {
        w.put(static_cast<uint8_t>(a.v6));
        w.put(a.prefix);
        w.put(a.speed_mbps);
        w.put_bytes(std::as_bytes(std::span(a.bytes)).first(a.v6 ? 16 : 4));
    }
    return {bytes, bytes + w.used()};
}

bool decode_addresses(std::span<const std::byte> bytes, std::vector<TcpAddress>* addresses, uint16_t* port) {
    Reader r(bytes);
    if (r.get<uint8_t>() != kAddressesVersion) return false;
    *port = r.get<uint16_t>();
    const auto count = r.get<uint8_t>();
    if (*port == 0 || count == 0 || count > kTcpAddressesMax) return false;
    addresses->clear();
    for (unsigned i = 0; i < count; ++i) {
        TcpAddress a;
        const auto family = r.get<uint8_t>();
        a.v6 = family == 1;
        a.prefix = r.get<uint8_t>();
        a.speed_mbps = r.get<uint32_t>();
        const std::span<const std::byte> address = r.get_bytes(a.v6 ? 16 : 4);
        if (!r.ok() || family > 1 || a.prefix > address.size() * 8) return false;
        memcpy(a.bytes, address.data(), address.size());
        addresses->push_back(a);
    }
    return r.rest().empty();
}

void order_addresses(std::span<const TcpAddress> own, std::vector<TcpAddress>* peers) {
    const auto is_near = [&](const TcpAddress& a) {
        return std::any_of(own.begin(), own.end(), [&](const TcpAddress& o) { return same_network(o, a); });
    };
    std::stable_sort(peers->begin(), peers->end(), [&](const TcpAddress& a, const TcpAddress& b) {
        const bool a_near = is_near(a), b_near = is_near(b);
        if (a_near != b_near) return a_near;
        const bool a_bridge = a.speed_mbps == kBridgeMbps, b_bridge = b.speed_mbps == kBridgeMbps;
        if (a_bridge != b_bridge) return b_bridge;
        return a.speed_mbps > b.speed_mbps;
    });
}

socklen_t socket_address(const TcpAddress& address, uint16_t port, sockaddr_storage* out) {
    *out = {};
    if (address.v6) {
        auto& to = *reinterpret_cast<sockaddr_in6*>(out);
        to.sin6_family = AF_INET6;
        to.sin6_port = htons(port);
        memcpy(&to.sin6_addr, address.bytes, 16);
        return sizeof to;
    }
    auto& to = *reinterpret_cast<sockaddr_in*>(out);
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    memcpy(&to.sin_addr, address.bytes, 4);
    return sizeof to;
}

}  // namespace longshore
