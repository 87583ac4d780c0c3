// What a user may say about the network between machines; the same in all service processes of a job.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longshore {

// Where the network reaches one service process, or one agent.
constexpr size_t kAddressBytesMax = 4000;

// kAuto: UCX where all service processes have RDMA, else TCP.
enum class NetworkChoice : uint8_t { kAuto, kTcp, kUcx };

struct NetworkSettings {
    NetworkChoice choice = NetworkChoice::kAuto;
    uint8_t tls = 0;                         // what TCP carries is encrypted
    uint16_t port_first = 0, port_last = 0;  // to listen at for TCP; 0: any
    char interfaces[160] = {};               // for TCP: "eth0,ib0"; empty: all
};

}  // namespace longshore
