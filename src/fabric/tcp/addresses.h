// Where a service process can be reached by TCP: the addresses of its machine's network interfaces, and one
// port. A peer tries those first that lie in a network of its own, the quickest interface before others.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longshore {

struct TcpAddress {
    bool v6 = false;
    uint8_t prefix = 0;       // bits of the network's part
    uint32_t speed_mbps = 0;  // of the interface; 0: not known
    uint8_t bytes[16] = {};   // 4 or 16 of them
    bool operator==(const TcpAddress&) const = default;
};

// What a bridge of containers or virtual machines has for a speed. Such have the same address on every
// machine, and are tried last.
constexpr uint32_t kBridgeMbps = 1;

constexpr size_t kTcpAddressesMax = 16;

// Of the interfaces named ("eth0,ib0"), or of all that are up but for the loopback, which is taken where
// there is nothing else. Empty: `error` says why and what to do.
std::vector<TcpAddress> own_addresses(const std::string& interfaces, std::string* error);

std::vector<std::byte> encode_addresses(std::span<const TcpAddress> addresses, uint16_t port);
// False: not what encode_addresses() makes.
bool decode_addresses(std::span<const std::byte> bytes, std::vector<TcpAddress>* addresses, uint16_t* port);

// The peer's addresses in the order in which to try them from here.
void order_addresses(std::span<const TcpAddress> own, std::vector<TcpAddress>* peers);

// As connect() wants it. Returns its length.
socklen_t socket_address(const TcpAddress& address, uint16_t port, sockaddr_storage* out);

}  // namespace longshore
