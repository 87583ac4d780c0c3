#include "model/simulated_rank.h"

namespace longshore::timed {

SimulatedRank::SimulatedRank(Offload& world, uint32_t rank)
    : world_(world),
      rank_(rank),
      node_(world.job().node_of(rank)),
      local_(static_cast<uint16_t>(world.job().local_of(rank))),
      block_(RankEngine::bytes_needed(world.memory(node_).limits())),
      engine_(block_.data(), world.memory(node_), local_),
      slot_(world.memory(node_).rank(local_)) {
    RegionEntry& region = world.memory(node_).region(local_, kBuffers);
    region.bytes = UINT64_MAX / 2;
    region.generation.store(kBuffersGeneration);
}

void SimulatedRank::enter_at(Time time, uint64_t sequence) {
    sequence_ = sequence;
    world_.queue().at(time, *this, kEnter);
}

uint64_t SimulatedRank::arrays_given() const {
    const CollectiveRules& rules = rules_of(world_.job().collective);
    return rules.by_vector ? (rules.is_shared ? 1 : 2) : 0;
}

Time SimulatedRank::post_time() {
    const Machine& m = world_.machine();
    return world_.step_time(m.rank_post + arrays_given() * world_.job().group_size() * m.rank_post_each);
}

uint64_t SimulatedRank::copied_bytes() const {
    const OperationArguments a = world_.arguments(rank_, sequence_);
    if (!a.send_is_stable) return 0;
    return a.send_block_bytes * (rules_of(a.collective).is_shared ? 1 : world_.job().group_size());
}

OperationArguments SimulatedRank::prepare(WakeSet* wake) {
    const bool over = engine_.reap(wake) == 0;
    if (over && copy_bytes_ != 0) {
        engine_.arena().release(copy_, copy_bytes_);
        copy_bytes_ = 0;
    }
    OperationArguments a = world_.arguments(rank_, sequence_);
    if (!a.send_is_stable) return a;
    if (copy_bytes_ == 0) {
        copy_bytes_ = copied_bytes();
        copy_ = engine_.arena().allocate(copy_bytes_);
        LONGSHORE_CHECK(copy_ != 0);
    }
    a.send = {local_, kArenaRegion, copy_ - world_.memory(node_).arena_begin(local_)};
    return a;
}

}  // namespace longshore::timed
