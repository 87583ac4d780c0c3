// The RDMA device that the verbs mover uses, and this process's address on it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

namespace longshore::dpu_bench {

// Owners of what libibverbs hands out.
template <auto give_back>
struct GiveBack {
    template <typename Thing>
    void operator()(Thing* thing) const {
        give_back(thing);
    }
};
using Context = std::unique_ptr<ibv_context, GiveBack<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, GiveBack<ibv_dealloc_pd>>;
using Channel = std::unique_ptr<ibv_comp_channel, GiveBack<ibv_destroy_comp_channel>>;
using Completions = std::unique_ptr<ibv_cq, GiveBack<ibv_destroy_cq>>;
using Connection = std::unique_ptr<ibv_qp, GiveBack<ibv_destroy_qp>>;
using Registration = std::unique_ptr<ibv_mr, GiveBack<ibv_dereg_mr>>;

struct Port {
    Context context;
    std::string device;
    std::uint8_t number = 0;
    ibv_port_attr attributes{};
    int gid_index = 0;
    ibv_gid gid{};

    // RoCE has no local identifiers: there, packets carry global addresses.
    bool needs_global_address() const { return attributes.lid == 0; }
};

// `wanted`: NAME or NAME:PORT; "": the first device with an active port. Throws std::runtime_error, which
// says what to do.
Port open_port(const std::string& wanted);

}  // namespace longshore::dpu_bench
