// longshore-tcp.so: what a service process loads of this fabric, and of OpenSSL.
#include <openssl/crypto.h>

#include "fabric/network.h"
#include "fabric/tcp/node_streams.h"
#include "fabric/tcp/tcp_fabric.h"

namespace longshore {
namespace {

class TcpNetwork : public Network {
  public:
    explicit TcpNetwork(TcpEnd end) : end_(std::move(end)) {}
    ~TcpNetwork() override { end_.share.close(); }
    std::span<const std::byte> address() const override { return end_.address; }
    std::unique_ptr<Fabric> make_fabric(NetworkOptions options, std::unique_ptr<ShmFabric> local,
                                        std::string* error) override {
        if (options.agents.empty())
            return TcpFabric::create(std::move(options), std::move(end_), std::move(local), error);
        *error = "service processes on a DPU reach their hosts' memory by UCX alone (LONGSHORE_NETWORK=ucx)";
        return nullptr;
    }

  private:
    TcpEnd end_;
};

const char* library() {
    static const std::string name = std::string("TCP, ") + OpenSSL_version(OPENSSL_VERSION);
    return name.c_str();
}

std::unique_ptr<Network> open_network(const NetworkSettings& settings, PortShare share, std::string* error) {
    TcpEnd end;
    return end.open(settings, std::move(share), error) ? std::make_unique<TcpNetwork>(std::move(end))
                                                       : nullptr;
}

std::unique_ptr<MemoryAgent> open_agent(bool, std::string* error) {
    *error = "memory is opened to a DPU by UCX alone (LONGSHORE_NETWORK=ucx)";
    return nullptr;
}

std::string try_alias(std::span<const std::byte>) {
    return "aliases are UCX's";
}

}  // namespace
}  // namespace longshore

extern "C" __attribute__((visibility("default"))) const longshore::NetworkPart longshore_network;
const longshore::NetworkPart longshore_network = {
    longshore::build_name(), longshore::kNetworkLayout, longshore::library,        longshore::open_network,
    longshore::open_agent,   longshore::try_alias,      &longshore::node_streams()};
