// Where the bytes lie that another node's service process reads here.
#pragma once

#include "fabric/shm/shm_fabric.h"

namespace longshore {

class RegionSource {
  public:
    RegionSource(const NodeMemory& memory, ShmFabric& local, ServiceId self, uint32_t incarnation)
        : memory_(memory), local_(local), self_(self), incarnation_(incarnation) {}
    // kMoved: `piece` is where `bytes` bytes at `offset` of the region lie in this process, mapped there for
    // good; or it is empty, and fetch() copies them. Else they cannot be had, and `why` says so if that is
    // not the asker's bad luck but its fault.
    MoveResult find(const RegionName& region, uint64_t offset, uint64_t bytes,
                    std::span<const std::byte>* piece, const char** why);
    // In which it was found: a rank may withdraw it at any time.
    RegionUse use_of(const RegionName& region) const;
    MoveResult fetch(const RegionName& region, uint64_t offset, std::span<std::byte> to);

  private:
    const NodeMemory memory_;
    ShmFabric& local_;
    const ServiceId self_;
    const uint32_t incarnation_;
};

}  // namespace longshore
