// The world of the fabric between machines: that of the shared-memory fabric, with UCX between its two nodes.
#pragma once

#include "fabric/ucx/ucx_fabric.h"
#include "shm_world.h"

namespace longshore::test {

class UcxWorld : public ShmWorld {
  public:
    UcxWorld(bool inaccessible, bool staging_only) : ShmWorld(inaccessible, staging_only) {
        UcxEnd ends[kNodes][kServices];
        ServiceBook& book = book_;
        book.resize(kNodes);
        std::string error;
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (uint16_t s = 0; s < kServices; ++s) {
                EXPECT_TRUE(ends[n][s].open(&error)) << error;
                book[n].push_back(ends[n][s].address);
            }
        }
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (uint16_t s = 0; s < kServices; ++s) {
                NetworkOptions options;
                options.memory = memory(NodeId{n});
                options.self = {NodeId{n}, ServiceId{s}};
                options.nodes = nodes();
                options.book = book;
                options.limit_ns = kLimitNs;
                options.staging_only = staging_only;
                fabrics_[n][s] = UcxFabric::create(std::move(options), std::move(ends[n][s]),
                                                   take_fabric(options.self), &error);
                EXPECT_TRUE(fabrics_[n][s]) << error;
            }
        }
    }
    Fabric& fabric(ServiceAddress m) override { return *fabrics_[m.node.value][m.service.value]; }
    void lose(ServiceAddress m) override { fabrics_[m.node.value][m.service.value].reset(); }
    bool reads_need_turns() const override { return true; }

    const ServiceBook& book() const { return book_; }

  private:
    ServiceBook book_;
    std::unique_ptr<UcxFabric> fabrics_[kNodes][kServices];
};

}  // namespace longshore::test
