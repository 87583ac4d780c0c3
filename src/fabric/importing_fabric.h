// A fabric that reads memory of other nodes by descriptors, which their service processes have to tell first:
// whoever uses it asks for them and keeps what was imported (fabric/described_fabric.h). Its contracts are
// those of fabric/fabric.h, and every accepted import yields exactly one event, too.
#pragma once

#include "fabric/fabric.h"
#include "fabric/region_directory.h"

namespace longshore {

class ImportingFabric : public FabricBase {
  public:
    // As Fabric::read(), from an imported region.
    virtual Post read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
                      const AlongPart* part = nullptr) = 0;
    // By which others import the staging memory of this member. It means nothing any more once this member's
    // process is gone. Empty: there is none.
    virtual std::span<const std::byte> staging_descriptor() const { return {}; }
    // Makes a region of another node usable. `owner`: a service process of that node. Which of the name and
    // the descriptor says where it is, is the fabric's business. The descriptor is borrowed for the call.
    virtual Post import_region(ServiceAddress owner, const RegionName& name,
                               std::span<const std::byte> descriptor, uint64_t id) = 0;
    virtual void forget_region(ImportHandle region) = 0;
};

}  // namespace longshore
