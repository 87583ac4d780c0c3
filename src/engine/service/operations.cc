#include "engine/service/operations.h"

#include <algorithm>

#include "base/prng.h"

namespace longshore {
namespace {

constexpr uint32_t kBucketsMax = 1u << 12;

}  // namespace

void Operations::carve(Carver& c) {
    c.pool(&pool_, max());
    links_ = c.take<Link>(context_.limits.watches_max);
    buckets_.carve(c, std::min(context_.limits.watches_max, kBucketsMax));
    turns_.carve(c, max());
}

uint32_t& Operations::bucket_of(const OperationId& id) const {
    return buckets_.of(mix64(id.group.value ^ mix64(id.sequence)));
}

uint32_t Operations::find(const OperationId& id) const {
    uint32_t i = bucket_of(id);
    while (i != kNone && pool_[i].id != id) i = pool_[i].chain;
    return i;
}

uint32_t Operations::open(const OperationId& id) {
    uint32_t i = find(id);
    if (i != kNone) return i;
    i = pool_.take();  // there are as many as watches and rows together
    Operation& o = pool_[i];
    uint32_t& bucket = bucket_of(id);
    o.id = id;
    o.chain = bucket;
    bucket = i;
    turns_.opened(i, id);
    for (Follower* f : followers_.each()) f->operation_opened(i);
    return i;
}

void Operations::join(uint32_t operation, uint32_t watch, bool own, uint64_t bytes) {
    Operation& o = pool_[operation];
    turns_.join(operation, bytes);
    o.own_count += own;
    if (o.watch_count++ == 0) {
        o.watch = watch;
        links_[watch] = {watch, watch};
        return;
    }
    const uint32_t last = links_[o.watch].previous;
    links_[watch] = {o.watch, last};
    links_[last].next = links_[o.watch].previous = watch;
}

void Operations::leave(uint32_t operation, uint32_t watch, bool own) {
    Operation& o = pool_[operation];
    const Link link = links_[watch];
    if (o.watch == watch) o.watch = link.next;
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    o.own_count -= own;
    if (--o.watch_count == 0) o.watch = kNone;
    settle(operation);
}

uint32_t Operations::rotate(uint32_t operation) {
    const uint32_t watch = pool_[operation].watch;
    pool_[operation].watch = links_[watch].next;
    return watch;
}

void Operations::release(uint32_t operation) {
    LONGSHORE_CHECK(pool_[operation].holds != 0);
    --pool_[operation].holds;
    settle(operation);
}

void Operations::end_serving() {
    const uint32_t operation = serving_;
    serving_ = kNone;
    settle(operation);
}

// What one of its ranks had for others they have got when its last watch goes, or its record would be there.
void Operations::settle(uint32_t operation) {
    Operation& o = pool_[operation];
    if (o.watch_count != 0 || serving_ == operation) return;
    turns_.leave(operation);
    for (Follower* f : followers_.each()) f->operation_emptied(operation);
    if (o.holds != 0) return;
    uint32_t* link = &bucket_of(o.id);
    while (*link != operation) link = &pool_[*link].chain;
    *link = o.chain;
    pool_.give(operation);
}

}  // namespace longshore
