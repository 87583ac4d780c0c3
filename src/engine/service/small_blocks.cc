#include "engine/service/small_blocks.h"

#include <cstring>

namespace longshore {

void SmallBlocks::carve(Carver& c) {
    c.pool(&pool_, context_.limits.eager_max);
    buckets_.carve(c, context_.limits.eager_max);
}

uint32_t& SmallBlocks::bucket_of(const OperationId& operation, Rank source) const {
    return buckets_.of(hash_of(operation, source));
}

void SmallBlocks::keep(ServiceAddress from, const SmallBlock& block) {
    const BlockName name{block.operation, block.source, block.destination};
    uint32_t& bucket = bucket_of(block.operation, block.source);
    for (uint32_t i = bucket; i != kNone; i = pool_[i].chain)
        if (pool_[i].name == name) return;
    const uint32_t i = pool_.take();
    if (i == kNone) return;
    Entry& e = pool_[i];
    e.name = name;
    e.origin = from;
    e.count = static_cast<uint32_t>(block.bytes.size());
    memcpy(e.bytes, block.bytes.data(), block.bytes.size());
    e.chain = bucket;
    bucket = i;
}

uint32_t SmallBlocks::take(const BlockName& name) {
    uint32_t* link = &bucket_of(name.operation, name.source);
    while (*link != kNone && pool_[*link].name != name) link = &pool_[*link].chain;
    const uint32_t i = *link;
    if (i != kNone) *link = pool_[i].chain;
    return i;
}

template <class Goes>
void SmallBlocks::drop_from(uint32_t* link, Goes goes) {
    while (*link != kNone) {
        const uint32_t i = *link;
        if (!goes(pool_[i])) {
            link = &pool_[i].chain;
            continue;
        }
        *link = pool_[i].chain;
        pool_.give(i);
    }
}

void SmallBlocks::drop(const OperationId& operation, Rank source) {
    drop_from(&bucket_of(operation, source),
              [&](const Entry& e) { return e.name.operation == operation && e.name.source == source; });
}

void SmallBlocks::drop_of(ServiceAddress origin) {
    for (uint32_t b = 0; b < buckets_.count && pool_.in_use() != 0; ++b)
        drop_from(&buckets_.heads[b], [&](const Entry& e) { return e.origin == origin; });
}

bool SmallBlocks::look_at_one(OperationId* operation, Rank* source) {
    const uint32_t i = buckets_.of(clock_++);
    if (i == kNone) return false;
    *operation = pool_[i].name.operation;
    *source = pool_[i].name.source;
    return true;
}

}  // namespace longshore
