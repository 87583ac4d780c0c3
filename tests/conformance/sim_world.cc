// The simulator's fabric as a world of the suite: virtual time, which poll() lets pass. Beside it the fabric
// of one machine (shm_world.h).
#include "fabric/described_fabric.h"
#include "shm_world.h"
#include "simulator/fabric.h"

namespace longshore::test {
namespace {

class SimWorld : public FabricWorld {
  public:
    explicit SimWorld(bool staging_only)
        : fabrics_(
              sim::make_sim_fabrics(1, kNodes, kServices, kRanks, kPoolBytes, kStagingBytes, staging_only)) {
        for (uint16_t n = 0; n < kNodes; ++n)
            for (uint16_t r = 0; r < kRanks; ++r) {
                const sim::Buffer b = fabrics_->memory->allocate(kRegionBytes);
                at_[n][r] = b.at;
                RegionId id;
                EXPECT_TRUE(fabrics_->memory->add_region(NodeId{n}, LocalRank{r}, b.at, kRegionBytes,
                                                         kDescriptorBytes, &id));
                EXPECT_EQ(id, kUserRegion);
            }
        for (uint16_t n = 0; n < kNodes; ++n)
            for (uint16_t s = 0; s < kServices; ++s) {
                DescribedOptions options;
                options.memory = memory(NodeId{n});
                options.self = {NodeId{n}, ServiceId{s}};
                described_[n][s] =
                    std::make_unique<DescribedFabric>(options, fabrics_->world->fabric(options.self));
            }
    }
    Fabric& fabric(ServiceAddress m) override { return *described_[m.node.value][m.service.value]; }
    NodeMemory memory(NodeId node) override { return fabrics_->memory->node(node.value); }
    std::byte* bytes(NodeId node, LocalRank rank) override {
        return fabrics_->memory->pool(at_[node.value][rank.value]);
    }
    bool staging_only() const override { return fabrics_->options.staging_only; }
    void lose(ServiceAddress m) override { fabrics_->world->lose(fabrics_->world->index(m)); }
    uint64_t now_ns() const override { return fabrics_->scheduler->now_ns(); }
    bool has_threads() const override { return false; }
    bool reads_need_turns() const override { return true; }

  private:
    static constexpr uint32_t kDescriptorBytes = 300;
    static constexpr uint64_t kPoolBytes = 2 * kNodes * kRanks * kRegionBytes;
    std::unique_ptr<sim::SimFabrics> fabrics_;
    std::unique_ptr<DescribedFabric> described_[kNodes][kServices];
    uint64_t at_[kNodes][kRanks] = {};
};

}  // namespace

std::vector<NamedWorld> worlds() {
    return {{"shm", [] { return std::make_unique<ShmWorld>(false, false); }},
            {"shm_inaccessible", [] { return std::make_unique<ShmWorld>(true, false); }},
            {"sim", [] { return std::make_unique<SimWorld>(false); }},
            {"sim_staging", [] { return std::make_unique<SimWorld>(true); }},
            {"shm_staging", [] { return std::make_unique<ShmWorld>(true, true); }}};
}

}  // namespace longshore::test
