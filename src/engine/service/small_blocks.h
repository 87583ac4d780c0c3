// Small blocks, which come with the frame before their rows do.
// Keeps: their bytes, by operation, source and destination.
// Promises: a block is taken once; what there is no room for is not kept, and is read like any other block.
// Asks: nothing of other parts.
#pragma once

#include "engine/service/context.h"

namespace longshore {

class SmallBlocks {
  public:
    explicit SmallBlocks(const ServiceContext& context) : context_(context) {}
    void carve(Carver& c);

    uint32_t room() const { return pool_.room(); }
    void keep(ServiceAddress from, const SmallBlock& block);
    // Takes it out of the table; who takes it gives it back. kNone: it is not there.
    uint32_t take(const BlockName& name);
    void give(uint32_t i) { pool_.give(i); }
    std::span<const std::byte> bytes(uint32_t i) const { return {pool_[i].bytes, pool_[i].count}; }

    // Those of a row that is over, or forgotten.
    void drop(const OperationId& operation, Rank source);
    // Those whose rows may not come: who has sent them is no more.
    void drop_of(ServiceAddress origin);
    // Names the row of a kept block, of another one each time; false: that place of the table is empty.
    bool look_at_one(OperationId* operation, Rank* source);

  private:
    struct Entry {
        uint32_t next = kNone;
        uint32_t chain = kNone;  // in its hash chain
        BlockName name;
        ServiceAddress origin;
        uint32_t count = 0;
        std::byte bytes[kEagerBytesMax];
    };
    template <class Goes>
    void drop_from(uint32_t* link, Goes goes);
    uint32_t& bucket_of(const OperationId& operation, Rank source) const;

    const ServiceContext& context_;
    Pool<Entry> pool_;
    Buckets buckets_;
    uint32_t clock_ = 0;
};

}  // namespace longshore
