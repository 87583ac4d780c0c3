#include "simulator/fabric.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace longshore::sim {
namespace {

// Events of kind kFabric: what happens, and to which of the actor's moves, imports or links.
enum class Happening : uint64_t { kMove, kImport, kMessage, kLoss };
constexpr uint64_t happening(Happening h, uint64_t slot, uint64_t life) {
    return static_cast<uint64_t>(h) | slot << 4 | life << 36;
}
constexpr uint32_t kAgainRunMax = 20;
constexpr size_t kArrivalsMax = 1 << 20;
constexpr size_t kAlongMax = 16;
constexpr uint64_t kPollNs = 1000;      // of a poll where the fabric owns the clock
constexpr uint64_t kNoticeNs = 300000;  // until a loss is noticed

}  // namespace

FabricWorld::FabricWorld(const WorldOptions& options, Scheduler& scheduler, Memory& memory)
    : options_(options), scheduler_(scheduler), memory_(memory) {
    uint32_t total = 0;
    for (uint32_t n = 0; n < options.nodes; ++n) {
        first_of_node_[n] = total;
        total += options.services_of_node[n];
    }
    for (uint32_t n = 0; n < options.nodes; ++n)
        for (uint32_t s = 0; s < options.services_of_node[n]; ++s) {
            const ServiceAddress a{NodeId(static_cast<uint16_t>(n)), ServiceId(static_cast<uint16_t>(s))};
            fabrics_.push_back(std::make_unique<SimFabric>(*this, a, static_cast<uint32_t>(fabrics_.size())));
        }
    for (auto& f : fabrics_) f->links_.resize(total);
}

FabricWorld::~FabricWorld() = default;

void FabricWorld::on_event(uint32_t actor, uint64_t value) {
    SimFabric& f = *fabrics_[actor];
    const uint32_t slot = static_cast<uint32_t>(value >> 4);
    const uint32_t life = static_cast<uint32_t>(value >> 36);
    switch (static_cast<Happening>(value & 15)) {
        case Happening::kMove:
            if (life == f.life_) f.step(slot);
            break;
        case Happening::kImport:
            if (life != f.life_) break;
            for (size_t i = 0; i < f.importing_.size(); ++i) {
                if (f.importing_[i].first != slot) continue;
                SimFabric::Arrival done = std::move(f.importing_[i].second);
                f.importing_.erase(f.importing_.begin() + static_cast<ptrdiff_t>(i));
                f.arrive(std::move(done));
                break;
            }
            break;
        case Happening::kMessage:
            f.take_message(slot, life);
            break;
        case Happening::kLoss:
            if (life == f.life_) f.hear_of_loss(slot);
            break;
    }
}

// A message of ours reaches its end of the link.
void SimFabric::take_message(uint32_t peer, uint32_t number) {
    Link& link = links_[peer];
    size_t i = 0;
    while (i < link.flying.size() && link.flying[i].number != number) ++i;
    LONGSHORE_CHECK(i < link.flying.size());
    Flying& flying = link.flying[i];
    const bool lost = flying.epoch != link.epoch && link.lost;
    if (!lost && flying.late_ns != 0) {
        world_.scheduler_.post(std::exchange(flying.late_ns, 0), EventKind::kFabric, index_,
                               happening(Happening::kMessage, peer, number));
        return;
    }
    Arrival a;
    a.message = std::move(flying.message);
    link.flying.erase(link.flying.begin() + static_cast<ptrdiff_t>(i));
    SimFabric& to = *world_.fabrics_[peer];
    if (lost || !to.alive_ || to.peer_lost_[index_]) return;
    a.event.kind = FabricEvent::Kind::kMessage;
    a.event.peer = self_;
    to.arrive(std::move(a));
}

void SimFabric::hear_of_loss(uint32_t peer) {
    if (peer_lost_[peer]) return;
    peer_lost_[peer] = true;
    Arrival a;
    a.event.kind = FabricEvent::Kind::kPeerLost;
    a.event.peer = world_.fabrics_[peer]->self_;
    arrive(std::move(a));
}

bool FabricWorld::kill(uint32_t dead) {
    SimFabric& f = *fabrics_[dead];
    bool moved = false;
    for (SimFabric::Move& m : f.moves_) {
        moved |= m.used && m.stage >= 2 && m.result == MoveResult::kMoved;
        m.used = false;
    }
    f.in_flight_ = 0;
    f.alive_ = false;
    ++f.life_;
    f.arrived_.clear();
    f.importing_.clear();
    f.imports_ = {};
    f.along_.clear();
    for (uint32_t i = 0; i < count(); ++i) {
        // What is under way to it or from it may still arrive, late, or not.
        for (SimFabric::Link* link : {&f.links_[i], &fabrics_[i]->links_[dead]}) {
            ++link->epoch;
            link->last_ns = 0;
            link->lost = scheduler_.random.chance(options_.late_frames ? 150 : 500);
            if (!options_.late_frames || link->flying.empty()) continue;
            // The new one starts 1 to 3 ms from now, and says hello.
            const uint64_t late_ns = scheduler_.random.between(1000000, 6000000);
            for (SimFabric::Flying& flying : link->flying) flying.late_ns = late_ns;
        }
    }
    return moved;
}

void FabricWorld::restart(uint32_t index) {
    SimFabric& f = *fabrics_[index];
    f.alive_ = true;
    std::fill(f.staging_.begin(), f.staging_.end(), std::byte{0x5d});
    f.describe_staging();
    for (uint32_t i = 0; i < count(); ++i) {
        f.peer_lost_[i] = false;
        if (fabrics_[i]->lost_) tell_of_loss(index, i);
    }
}

void FabricWorld::tell_of_loss(uint32_t index, uint32_t gone) {
    scheduler_.post(scheduler_.around(kNoticeNs), EventKind::kFabric, index,
                    happening(Happening::kLoss, gone, fabrics_[index]->life_));
}

void FabricWorld::lose(uint32_t index) {
    kill(index);
    fabrics_[index]->lost_ = true;
    for (uint32_t i = 0; i < count(); ++i)
        if (fabrics_[i]->alive_) tell_of_loss(i, index);
}

void FabricWorld::lose_node(NodeId node) {
    node_lost_[node.value] = true;
    for (uint32_t i = 0; i < count(); ++i)
        if (fabrics_[i]->self_.node == node) lose(i);
}

SimFabric::SimFabric(FabricWorld& world, ServiceAddress self, uint32_t index)
    : world_(world),
      self_(self),
      index_(index),
      staging_(uint64_t{world.options_.staging_slots} * world.options_.staging_slot_bytes) {
    describe_staging();
}

void SimFabric::describe_staging() {
    if (staging_.empty()) return;
    staging_descriptor_.resize(world_.options_.wide_descriptors ? 300 : 24);
    fill_descriptor({self_.node.value, kStaging.value, self_.service.value, life_}, staging_descriptor_);
}

std::span<const std::byte> SimFabric::staging_descriptor() const {
    return staging_descriptor_;
}

SimFabric* SimFabric::staging_owner(const RegionIdentity& name) {
    SimFabric& f = world_.fabric({NodeId{name.node}, ServiceId{static_cast<uint16_t>(name.region)}});
    return f.alive_ && f.life_ == name.generation ? &f : nullptr;
}

// Storms end: nothing is refused for ever.
bool SimFabric::refuse() {
    if (world_.calm || world_.options_.again == 0) return false;
    if (again_run_ >= kAgainRunMax || !world_.scheduler_.random.chance(world_.options_.again)) {
        again_run_ = 0;
        return false;
    }
    ++again_run_;
    return true;
}

Post SimFabric::send(ServiceAddress to, std::span<const std::byte> message) {
    LONGSHORE_CHECK(message.size() <= 4096);
    if (refuse()) return Post::kAgain;
    const uint32_t peer = world_.index(to);
    SimFabric& other = *world_.fabrics_[peer];
    if (peer_lost_[peer]) return Post::kAccepted;
    if (!other.alive_) {
        // Not connected; or nobody has noticed yet, and the message is lost.
        if (again_run_ < kAgainRunMax && world_.scheduler_.random.chance(700)) {
            ++again_run_;
            return Post::kAgain;
        }
        again_run_ = 0;
        return Post::kAccepted;
    }
    Link& link = links_[peer];
    const uint32_t frames_max = world_.options_.link_frames;
    if (frames_max != 0 && link.flying.size() >= frames_max) return Post::kAgain;
    // Each link has its own delay, never within one: in order between two, in any order across peers. A link
    // that was made anew does not wait for what is left of the old one.
    const uint32_t number = ++link.posted & 0xfffffff;
    link.flying.push_back({number, link.epoch, std::vector<std::byte>(message.begin(), message.end())});
    const uint64_t now = world_.scheduler_.now_ns();
    const uint64_t at =
        std::max(link.last_ns, now + 200 + world_.scheduler_.around(world_.options_.message_ns));
    link.last_ns = at;
    world_.scheduler_.post(at - now, EventKind::kFabric, index_,
                           happening(Happening::kMessage, peer, number));
    return Post::kAccepted;
}

Post SimFabric::start(Move move) {
    if (refuse()) return Post::kAgain;
    uint32_t slot = 0;
    while (slot < moves_.size() && moves_[slot].used) ++slot;
    if (slot == moves_.size()) moves_.emplace_back();
    move.used = true;
    move.life = life_;
    moves_[slot] = move;
    ++in_flight_;
    if (world_.options_.large) {
        // Two million of them: at once, without an event each.
        step(slot);
        moves_[slot].stage = 2;
        step(slot);
        return Post::kAccepted;
    }
    uint64_t takes_ns = world_.scheduler_.around(world_.options_.move_ns);
    if (world_.options_.link_ns_per_byte != 0 && move.from_import) {
        const uint64_t now = world_.scheduler_.now_ns();
        uint64_t& free_ns = world_.link_free_ns_[move.from_node.value][self_.node.value];
        free_ns = std::max(free_ns, now) + move.bytes * world_.options_.link_ns_per_byte;
        takes_ns += free_ns - now;
    }
    world_.scheduler_.post(takes_ns, EventKind::kFabric, index_, happening(Happening::kMove, slot, life_));
    return Post::kAccepted;
}

Post SimFabric::copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id, uint64_t) {
    Move m;
    m.from_node = self_.node;
    m.from_ref = from;
    m.to = to;
    m.bytes = bytes;
    m.id = id;
    if (bytes != 0 && world_.options_.staging_only && from.rank != kStaging && to.rank != kStaging) {
        world_.on_violation("a copy that is not staged");
        m.result = MoveResult::kFailed;
    } else if (is_withdrawn(m)) {
        m.result = MoveResult::kFailed;
    } else if (bytes != 0 && from.rank != kStaging) {
        const MoveResult a = reach(self_.node, from);
        const MoveResult b = to.rank == kStaging ? MoveResult::kMoved : reach(self_.node, to);
        m.result = a == MoveResult::kNotPermitted ? a : b == MoveResult::kMoved ? a : b;
    }
    return start(m);
}

// Whether a service process of the node may touch this memory, and can. What is no region shows when bytes
// move.
MoveResult SimFabric::reach(NodeId node, const MemoryRef& ref) {
    if (ref.rank.value >= world_.memory_.node(node.value).rank_count() ||
        ref.region.value >= world_.options_.regions)
        return MoveResult::kMoved;
    const Region& region = world_.memory_.region(node, ref.rank, ref.region);
    return region.rank_only    ? MoveResult::kNotPermitted
           : region.unreadable ? MoveResult::kFailed
                               : MoveResult::kMoved;
}

Post SimFabric::read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
                     const AlongPart* part) {
    Move m;
    m.from_import = true;
    const bool around = bytes != 0 && world_.options_.staging_only && to.rank != kStaging;
    if (around) world_.on_violation("a read that is not staged");
    if (const RegionIdentity* const name = imports_.find(from)) {
        m.name = *name;
    } else {
        world_.on_violation("read through an import that is forgotten");
        m.result = MoveResult::kFailed;
    }
    m.from_node = NodeId{m.name.node};
    m.from_ref = {LocalRank{m.name.rank}, RegionId{m.name.region}, offset};
    m.to = to;
    m.bytes = bytes;
    m.id = id;
    if (bytes != 0 && m.from_ref.rank != kStaging &&
        world_.memory_.region(m.from_node, m.from_ref.rank, m.from_ref.region).unreadable)
        m.result = MoveResult::kFailed;
    if (around) m.result = MoveResult::kFailed;
    for (const Along& along : along_) {
        if (part == nullptr || along.block != part->block) continue;
        if (part->offset > along.bytes->size() || bytes > along.bytes->size() - part->offset) {
            world_.on_violation("a read beyond what was sent along");
            break;
        }
        m.along = along.bytes;
        m.from = along.bytes->data() + part->offset;
        m.from_import = false;
        ++world_.reads_along;
        break;
    }
    return start(m);
}

// Its bytes of now: to give them to a read later must be as good as to read then.
void SimFabric::send_along(ServiceAddress to, const BlockName& block, const RegionName& region,
                           uint64_t offset, uint64_t bytes) {
    if (world_.calm || !world_.scheduler_.random.chance(world_.options_.along)) return;
    const Region& r = world_.memory_.region(self_.node, region.rank, region.region);
    if (r.generation != region.generation || r.unreadable) return;
    std::string wrong;
    const std::byte* from = resolve(self_.node, {region.rank, region.region, offset}, bytes, &wrong);
    if (from == nullptr) return;  // its operation has ended meanwhile: in an error, or by a repetition
    // What is on a host is not sent along.
    if (sight(self_.node, {region.rank, region.region, 0}) != FabricWorld::HostSight::kMemory) return;
    SimFabric& there = world_.fabric(to);
    if (there.alive_)
        there.along_.push_back({block, std::make_shared<std::vector<std::byte>>(from, from + bytes)});
    if (there.along_.size() > kAlongMax) there.along_.pop_front();
}

Post SimFabric::write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) {
    Move m;
    m.from = from.data();
    m.to = to;
    m.bytes = from.size();
    m.id = id;
    return start(m);
}

std::byte* SimFabric::resolve(NodeId node, const MemoryRef& ref, uint64_t bytes, std::string* wrong) {
    if (ref.rank != kStaging) return world_.memory_.resolve(node, ref, bytes, wrong);
    if (ref.offset <= staging_.size() && bytes <= staging_.size() - ref.offset)
        return staging_.data() + ref.offset;
    *wrong = "outside the staging memory";
    return nullptr;
}

// The rank at one of its ends has given it up.
bool SimFabric::is_withdrawn(const Move& m) const {
    return (m.from == nullptr && world_.memory_.is_withdrawn(m.from_node, m.from_ref)) ||
           world_.memory_.is_withdrawn(self_.node, m.to);
}

bool SimFabric::find(Move& m) {
    std::string wrong;
    const std::byte* from = m.from;
    if (m.from_import && m.from_ref.rank == kStaging) {
        SimFabric* owner = staging_owner(m.name);
        if (owner == nullptr) return false;
        from = owner->resolve(m.from_node, m.from_ref, m.bytes, &wrong);
    } else if (from == nullptr) {
        const Region& r = world_.memory_.region(m.from_node, m.from_ref.rank, m.from_ref.region);
        if (m.from_import && r.generation != m.name.generation) {
            world_.on_violation("read through an import of a region that is gone");
            return false;
        }
        from = resolve(m.from_node, m.from_ref, m.bytes, &wrong);
    }
    std::byte* to = resolve(self_.node, m.to, m.bytes, &wrong);
    if (from == nullptr || to == nullptr) {
        world_.on_violation(wrong);
        return false;
    }
    m.source = from;
    m.target = to;
    m.use = m.from == nullptr ? world_.memory_.use_of(m.from_node, m.from_ref) : RegionUse{};
    return true;
}

// A region is looked up before bytes move. While they do nobody looks whether it was withdrawn, but when they
// have: as service processes and ranks copy, and as a read is served (fabric.h).
bool SimFabric::transfer(Move& m, uint64_t begin, uint64_t end) {
    if (m.result != MoveResult::kMoved) return true;
    if (m.from_import && world_.node_lost_[m.from_node.value]) return false;
    const bool withdrawn = is_withdrawn(m);
    if (withdrawn && begin == 0) return false;
    if (!withdrawn && !find(m)) return false;
    const std::byte* const from = m.source;
    std::byte* const to = m.target;
    if (withdrawn && end != begin && world_.memory_.is_closed(to))
        world_.on_violation("a write into a buffer that its rank has given up");
    using Sight = FabricWorld::HostSight;
    const Sight there = sight(self_.node, m.to);
    if (there == Sight::kGivenUp) world_.on_violation("a write into memory that its rank has given up");
    if (there == Sight::kZeros) return true;
    memmove(to + begin, from + begin, end - begin);
    const bool of_rank = m.from_import || m.from == nullptr;
    const Sight here = of_rank ? sight(m.from_node, m.from_ref) : Sight::kMemory;
    for (uint64_t i = begin; i < end && here != Sight::kMemory; ++i)
        to[i] = here == Sight::kZeros ? std::byte{0} : ~to[i];
    return end != m.bytes || !m.use.is_over();
}

FabricWorld::HostSight SimFabric::sight(NodeId node, const MemoryRef& ref) const {
    const bool on_host = world_.options_.dpus && ref.rank != kStaging && ref.region != kArenaRegion;
    return on_host ? world_.host_sight(node, ref.rank) : FabricWorld::HostSight::kMemory;
}

void SimFabric::step(uint32_t slot) {
    Move& m = moves_[slot];
    const bool halves = m.stage == 0 && world_.options_.torn && m.bytes > 1;
    const uint64_t begin = m.stage == 1 ? m.bytes / 2 : 0;
    if (m.stage < 2) {
        if (!transfer(m, begin, halves ? m.bytes / 2 : m.bytes)) m.result = MoveResult::kFailed;
        m.stage = halves ? 1 : 2;
        if (world_.options_.large) return;
        world_.scheduler_.post(world_.scheduler_.around(world_.options_.move_ns / 2), EventKind::kFabric,
                               index_, happening(Happening::kMove, slot, life_));
        world_.on_stage(index_, m.stage == 2);
        return;
    }
    m.used = false;
    --in_flight_;
    if (m.result == MoveResult::kMoved && (m.from_import || m.from != nullptr))
        world_.bytes_between_nodes += m.bytes;
    if (world_.options_.dpus && m.result == MoveResult::kMoved && m.bytes != 0 && m.to.rank != kStaging &&
        m.to.region != kArenaRegion)
        world_.memory_.count_written(self_.node, m.to, m.bytes);
    Arrival a;
    a.event.kind = FabricEvent::Kind::kMoved;
    a.event.id = m.id;
    a.event.result = m.result;
    arrive(std::move(a));
}

Post SimFabric::import_region(ServiceAddress owner, const RegionName& named,
                              std::span<const std::byte> descriptor, uint64_t id) {
    if (refuse()) return Post::kAgain;
    RegionIdentity name;
    bool ok = read_descriptor(descriptor.data(), descriptor.size(), &name);
    if (!ok) world_.on_violation("a descriptor did not arrive as it was written");
    if (ok && (name.node != owner.node.value || name.rank != named.rank.value ||
               name.region != named.region.value || name.generation != named.generation))
        world_.on_violation("a region was imported under another's name");
    Prng& random = world_.scheduler_.random;
    if (!world_.calm && random.chance(world_.options_.import_fails)) ok = false;
    if (world_.node_lost_[owner.node.value]) ok = false;
    Arrival a;
    a.event = FabricEvent::imported(id, ok ? imports_.add(name) : 0);
    uint32_t slot = static_cast<uint32_t>(random.next());
    importing_.emplace_back(slot, std::move(a));
    world_.scheduler_.post(world_.scheduler_.around(world_.options_.wide_descriptors ? 100000 : 1000),
                           EventKind::kFabric, index_, happening(Happening::kImport, slot, life_));
    return Post::kAccepted;
}

void SimFabric::forget_region(ImportHandle region) {
    LONGSHORE_CHECK(imports_.find(region) != nullptr);
    imports_.forget(region);
}

void SimFabric::arrive(Arrival arrival) {
    LONGSHORE_CHECK(arrived_.size() < kArrivalsMax);
    arrived_.push_back(std::move(arrival));
    world_.on_arrival(index_);
}

size_t SimFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    // A poll that does not wait takes time all the same.
    if (world_.owns_clock && wait_ns == 0) wait_ns = kPollNs;
    const uint64_t until = world_.scheduler_.now_ns() + wait_ns;
    while (wait_ns > 0 && arrived_.empty() && world_.scheduler_.next_ns() <= until) {
        Event e;
        world_.scheduler_.pop(&e);
        world_.on_event(e.actor, e.value);
    }
    if (wait_ns > 0 && arrived_.empty()) world_.scheduler_.advance_to(until);
    lent_.clear();
    size_t n = 0;
    while (n < events.size() && !arrived_.empty()) {
        events[n] = arrived_.front().event;
        lent_.push_back(std::move(arrived_.front().message));
        events[n].message = lent_.back();
        arrived_.pop_front();
        ++n;
    }
    return n;
}

void SimFabric::wake(const WakeSet& sleepers) {
    world_.on_wake(self_, sleepers);
}

std::unique_ptr<SimFabrics> make_sim_fabrics(uint64_t seed, uint32_t nodes, uint32_t services, uint32_t ranks,
                                             uint64_t pool_bytes, uint32_t staging_bytes, bool staging_only) {
    auto f = std::make_unique<SimFabrics>();
    f->options.seed = seed;
    f->options.nodes = nodes;
    f->options.ranks = nodes * ranks;
    f->options.torn = 1000;
    f->options.link_frames = 8;
    f->options.staging_slots = 1;
    f->options.staging_slot_bytes = staging_bytes;
    f->options.staging_only = staging_only;
    NodeLimits limits[kNodesMax];
    uint16_t counts[kNodesMax];
    for (uint32_t n = 0; n < nodes; ++n) {
        f->options.ranks_of_node[n] = ranks;
        f->options.services_of_node[n] = services;
        counts[n] = static_cast<uint16_t>(ranks);
        limits[n].ranks_max = ranks;
        limits[n].services_max = services;
        limits[n].groups_max = 4;
        limits[n].records_max = 16;
        limits[n].regions_max = f->options.regions;
        limits[n].claims_bytes = 1 << 16;
        limits[n].arena_bytes = 1 << 20;
        limits[n].groups_bytes = 1 << 16;
    }
    f->scheduler = std::make_unique<Scheduler>(seed);
    f->memory = std::make_unique<Memory>(f->workspace, f->options, limits, counts, pool_bytes);
    f->world = std::make_unique<FabricWorld>(f->options, *f->scheduler, *f->memory);
    f->world->owns_clock = true;
    return f;
}

}  // namespace longshore::sim
