// Addresses of peers, and networks of them. An IPv4 address is kept as the IPv6 address that it is mapped to,
// so that it is the same whichever socket it came by.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longshore {

struct IpAddress {
    std::array<uint8_t, 16> bytes{};

    bool is_ipv4() const;
    bool is_loopback() const;
    bool operator==(const IpAddress&) const = default;
};

IpAddress ip_address(const sockaddr_storage& address);
std::optional<IpAddress> read_ip_address(std::string_view text);
std::string show(const IpAddress& address);

struct IpNetwork {
    IpAddress first;
    uint8_t bits = 128;  // that all its addresses have in common with `first`

    // ::/0 holds no IPv4 address.
    bool contains(const IpAddress& address) const;
    bool operator==(const IpNetwork&) const = default;
};

// "10.1.0.0/16", "fd00::/8", or one address. Bits beyond the prefix must be zero: who has set one means
// another network.
std::optional<IpNetwork> read_ip_network(std::string_view text);
std::string show(const IpNetwork& network);

}  // namespace longshore
