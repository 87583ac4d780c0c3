// longshore-ucx.so: what of UCX a service process loads.
#include "fabric/network.h"
#include "fabric/ucx/ucx_fabric.h"

namespace longshore {
namespace {

class UcxNetwork : public Network {
  public:
    explicit UcxNetwork(UcxEnd end) : end_(std::move(end)) {}
    std::span<const std::byte> address() const override { return end_.address; }
    std::unique_ptr<Fabric> make_fabric(NetworkOptions options, std::unique_ptr<ShmFabric> local,
                                        std::string* error) override {
        return UcxFabric::create(std::move(options), std::move(end_), std::move(local), error);
    }

  private:
    UcxEnd end_;
};

const char* library() {
    static const std::string name = "UCX " + ucx_version();
    return name.c_str();
}

std::unique_ptr<Network> open_network(std::string* error) {
    UcxEnd end;
    return end.open(error) ? std::make_unique<UcxNetwork>(std::move(end)) : nullptr;
}

}  // namespace
}  // namespace longshore

extern "C" __attribute__((visibility("default"))) const longshore::NetworkPart longshore_network;
const longshore::NetworkPart longshore_network = {longshore::build_name(), longshore::kNetworkLayout,
                                                  longshore::library, longshore::open_network};
