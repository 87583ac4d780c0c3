// The operations that ranks of this service process have entered, or that other nodes have told of, and which
// watches (watches.h) belong to each. Other parts keep what they need of an operation or a watch under its
// number here, and are told as Followers when numbers come into use.
//
// Keeps: the table of operations, by id; the ring of watches of each.
// Promises: an operation stays as long as it has a watch or somebody holds it; then its number may come
// back for another.
// Asks: Turns, which an operation leaves with its last watch.
#pragma once

#include "engine/service/context.h"
#include "engine/service/turns.h"

namespace longshore {

// A part that keeps something for operations or watches.
class Follower {
  public:
    virtual void operation_opened(uint32_t operation) { (void)operation; }
    // It has no watch: it has no turns, nothing can be read for it now. Said more than once.
    virtual void operation_emptied(uint32_t operation) { (void)operation; }
    virtual void watch_began(uint32_t watch, WakeSet* wake) { (void)watch, (void)wake; }
    // The watch is still a member of its operation.
    virtual void watch_ended(uint32_t watch) { (void)watch; }

  protected:
    ~Follower() = default;
};

// Followers, told in the order in which they came.
struct Followers {
    static constexpr uint32_t kMax = 8;
    Follower* all[kMax] = {};
    uint32_t count = 0;
    void add(Follower* f) {
        LONGSHORE_CHECK(count < kMax);
        all[count++] = f;
    }
    std::span<Follower* const> each() const { return {all, count}; }
};

struct Operation {
    uint32_t next = kNone;   // free list
    uint32_t chain = kNone;  // in its hash chain
    OperationId id;
    uint32_t watch = kNone;    // in the ring of its watches: to look at next
    uint32_t watch_count = 0;  // of them,
    uint32_t own_count = 0;    // of ranks of this service process
    uint32_t holds = 0;
};

class Operations {
  public:
    Operations(const ServiceContext& context, Turns& turns) : context_(context), turns_(turns) {}
    void carve(Carver& c);
    void follow(Follower* f) { followers_.add(f); }

    uint32_t max() const { return context_.limits.watches_max + context_.limits.rows_max; }
    const Operation& operator[](uint32_t operation) const { return pool_[operation]; }
    uint32_t find(const OperationId& id) const;  // kNone: it is not here
    uint32_t open(const OperationId& id);        // finds or makes it: the caller adds a watch or a hold
    void hold(uint32_t operation) { ++pool_[operation].holds; }
    void release(uint32_t operation);

    // `own`: of a rank of this service process. The last in the ring.
    void join(uint32_t operation, uint32_t watch, bool own, uint64_t bytes);
    void leave(uint32_t operation, uint32_t watch, bool own);
    // The next watch in the ring of an operation.
    uint32_t after(uint32_t watch) const { return links_[watch].next; }
    // Returns the watch to look at next, and goes on.
    uint32_t rotate(uint32_t operation);

    // While one is served it keeps its place, even without watches.
    void begin_serving(uint32_t operation) { serving_ = operation; }
    void end_serving();

  private:
    struct Link {
        uint32_t next, previous;
    };
    void settle(uint32_t operation);
    uint32_t& bucket_of(const OperationId& id) const;

    const ServiceContext& context_;
    Turns& turns_;
    Followers followers_;
    Pool<Operation> pool_;
    Link* links_ = nullptr;  // [watches_max]
    Buckets buckets_;
    uint32_t serving_ = kNone;
};

}  // namespace longshore
