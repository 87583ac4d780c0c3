// longshore-ucx.so: what of UCX a service process loads, and an agent.
#include "fabric/network.h"
#include "fabric/ucx/hosts.h"
#include "fabric/ucx/ucx_fabric.h"

namespace longshore {
namespace {

class UcxNetwork : public Network {
  public:
    explicit UcxNetwork(UcxEnd end) : end_(std::move(end)) {}
    std::span<const std::byte> address() const override { return end_.address; }
    std::unique_ptr<Fabric> make_fabric(NetworkOptions options, std::unique_ptr<ShmFabric> local,
                                        std::string* error) override {
        ShmFabric* const last = local.get();
        HostsOptions hosts{
            options.memory, options.self, options.incarnation, options.limit_ns, std::move(options.agents),
            options.aliases};
        std::unique_ptr<Fabric> between =
            UcxFabric::create(std::move(options), std::move(end_), std::move(local), error);
        if (!between || hosts.agents.empty()) return between;
        return add_hosts(std::move(hosts), std::move(between), last, error);
    }

  private:
    UcxEnd end_;
};

class UcxAgent : public MemoryAgent {
  public:
    explicit UcxAgent(std::unique_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}
    std::span<const std::byte> address() const override { return worker_->address(); }
    int event_fd() const override { return worker_->event_fd(); }
    bool arm() override { return worker_->arm(); }
    bool progress() override { return worker_->progress(); }
    UcxOpening* open_memory(std::span<std::byte> memory, std::vector<std::byte>* key,
                            std::string* error) override {
        return worker_->open_memory(memory, key, error);
    }
    void close_memory(UcxOpening* opening) override { worker_->close_memory(opening); }
    bool export_memory(const UcxOpening* opening, std::vector<std::byte>* exported,
                       std::string* error) override {
        return worker_->export_memory(opening, exported, error);
    }

  private:
    std::unique_ptr<UcxWorker> worker_;
};

const char* library() {
    static const std::string name = "UCX " + ucx_version();
    return name.c_str();
}

std::unique_ptr<Network> open_network(const NetworkSettings&, PortShare, std::string* error) {
    UcxEnd end;
    return end.open(error) ? std::make_unique<UcxNetwork>(std::move(end)) : nullptr;
}

std::unique_ptr<MemoryAgent> open_agent(bool exports, std::string* error) {
    auto worker = UcxWorker::create(error, exports ? UcxWorker::Use::kAliases : UcxWorker::Use::kMemory);
    return worker ? std::make_unique<UcxAgent>(std::move(worker)) : nullptr;
}

}  // namespace
}  // namespace longshore

extern "C" __attribute__((visibility("default"))) const longshore::NetworkPart longshore_network;
const longshore::NetworkPart longshore_network = {longshore::build_name(),
                                                  longshore::kNetworkLayout,
                                                  longshore::library,
                                                  longshore::open_network,
                                                  longshore::open_agent,
                                                  longshore::try_alias,
                                                  nullptr};
