// The world of the fabric between machines: that of the shared-memory fabric, with UCX between its two nodes.
#pragma once

#include "fabric/ucx/ucx_fabric.h"
#include "shm_world.h"

namespace longshore::test {

class UcxWorld : public ShmWorld {
  public:
    UcxWorld(bool inaccessible, bool staging_only, uint64_t limit_ns = kLimitNs)
        : ShmWorld(inaccessible, staging_only), limit_ns_(limit_ns * slowness()) {
        UcxEnd ends[kNodes][kServices];
        book_.resize(kNodes);
        std::string error;
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (UcxEnd& end : ends[n]) {
                EXPECT_TRUE(end.open(&error)) << error;
                book_[n].push_back(end.address);
            }
        }
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (uint16_t s = 0; s < kServices; ++s)
                open({NodeId{n}, ServiceId{s}}, 1, std::move(ends[n][s]));
        }
    }
    // Its former self has been lost.
    void restart(ServiceAddress m, uint32_t incarnation) {
        UcxEnd end;
        std::string error;
        EXPECT_TRUE(end.open(&error)) << error;
        start(m, incarnation);
        open(m, incarnation, std::move(end));
    }
    Fabric& fabric(ServiceAddress m) override { return *fabrics_[m.node.value][m.service.value]; }
    void lose(ServiceAddress m) override { fabrics_[m.node.value][m.service.value].reset(); }
    bool reads_need_turns() const override { return true; }

    const ServiceBook& book() const { return book_; }

  protected:
    std::unique_ptr<UcxFabric> take_network(ServiceAddress m) {
        return std::move(fabrics_[m.node.value][m.service.value]);
    }
    // What its network ends in.
    ShmFabric* local(ServiceAddress m) { return locals_[m.node.value][m.service.value]; }

  private:
    void open(ServiceAddress m, uint32_t incarnation, UcxEnd end) {
        NetworkOptions options;
        options.memory = memory(m.node);
        options.self = m;
        options.incarnation = incarnation;
        options.nodes = nodes();
        options.book = book_;
        options.limit_ns = limit_ns_;
        options.staging_only = staging_only();
        std::string error;
        auto& fabric = fabrics_[m.node.value][m.service.value];
        std::unique_ptr<ShmFabric> on_node = take_fabric(m);
        locals_[m.node.value][m.service.value] = on_node.get();
        fabric = UcxFabric::create(std::move(options), std::move(end), std::move(on_node), &error);
        EXPECT_TRUE(fabric) << error;
    }
    const uint64_t limit_ns_;
    ServiceBook book_;
    std::unique_ptr<UcxFabric> fabrics_[kNodes][kServices];
    ShmFabric* locals_[kNodes][kServices] = {};
};

}  // namespace longshore::test
