#include "dpu/card/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include <algorithm>

#include "base/text.h"

namespace longshore {
namespace {

constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned kMappedBits = 96;

IpAddress mapped(const in_addr& address) {
    IpAddress out;
    std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), out.bytes.begin());
    memcpy(&out.bytes[kMappedPrefix.size()], &address, sizeof address);
    return out;
}

// The byte `i` of an address whose first `bits` are one.
uint8_t mask_byte(unsigned bits, unsigned i) {
    if (bits >= 8 * (i + 1)) return 0xff;
    return bits <= 8 * i ? uint8_t{0} : static_cast<uint8_t>(0xff << (8 * (i + 1) - bits));
}

}  // namespace

bool IpAddress::is_ipv4() const {
    return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
}

bool IpAddress::is_loopback() const {
    if (is_ipv4()) return bytes[kMappedPrefix.size()] == 127;
    return bytes == std::array<uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
}

IpAddress ip_address(const sockaddr_storage& address) {
    IpAddress out;
    if (address.ss_family == AF_INET) {
        sockaddr_in ipv4;
        memcpy(&ipv4, &address, sizeof ipv4);
        return mapped(ipv4.sin_addr);
    }
    sockaddr_in6 ipv6;
    memcpy(&ipv6, &address, sizeof ipv6);
    memcpy(out.bytes.data(), &ipv6.sin6_addr, out.bytes.size());
    return out;
}

std::optional<IpAddress> read_ip_address(std::string_view text) {
    const std::string whole(text);
    in_addr ipv4;
    if (whole.find('\0') != whole.npos) return std::nullopt;
    if (inet_pton(AF_INET, whole.c_str(), &ipv4) == 1) return mapped(ipv4);
    IpAddress out;
    if (inet_pton(AF_INET6, whole.c_str(), out.bytes.data()) == 1) return out;
    return std::nullopt;
}

std::string show(const IpAddress& address) {
    char text[INET6_ADDRSTRLEN] = {};
    if (address.is_ipv4()) {
        inet_ntop(AF_INET, &address.bytes[kMappedPrefix.size()], text, sizeof text);
    } else {
        inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
    }
    return text;
}

bool IpNetwork::contains(const IpAddress& address) const {
    if (address.is_ipv4() != first.is_ipv4()) return false;
    for (unsigned i = 0; i < address.bytes.size(); ++i) {
        if (((address.bytes[i] ^ first.bytes[i]) & mask_byte(bits, i)) != 0) return false;
    }
    return true;
}

std::optional<IpNetwork> read_ip_network(std::string_view text) {
    const size_t slash = text.find('/');
    const std::optional<IpAddress> first = read_ip_address(text.substr(0, slash));
    if (!first) return std::nullopt;
    // By how it is written: ::ffff:10.0.0.0/104 counts the bits of IPv6.
    const unsigned written_from = text.substr(0, slash).find(':') == text.npos ? kMappedBits : 0;
    IpNetwork network{*first, 128};
    if (slash != text.npos) {
        const std::optional<uint64_t> bits = read_number(text.substr(slash + 1));
        if (!bits || *bits > 128 - written_from) return std::nullopt;
        network.bits = static_cast<uint8_t>(*bits + written_from);
    }
    for (unsigned i = 0; i < first->bytes.size(); ++i) {
        if ((first->bytes[i] & ~mask_byte(network.bits, i)) != 0) return std::nullopt;
    }
    return network;
}

std::string show(const IpNetwork& network) {
    const unsigned from = network.first.is_ipv4() ? kMappedBits : 0;
    return show(network.first) + "/" + std::to_string(network.bits - from);
}

}  // namespace longshore
