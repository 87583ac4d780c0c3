#include "dpu/transport/host_fabric.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "fabric/shm/system.h"

namespace longshore {
namespace {
constexpr size_t kKeysMax = 1024;     // of an agent, kept for the next use
constexpr size_t kAliasesMax = 4096;  // likewise, of all ranks of the node
constexpr int kStepsPerTurn = 64;
}  // namespace

HostFabric::HostFabric(HostOptions options, std::unique_ptr<Fabric> inner, ShmFabric* local,
                       std::unique_ptr<UcxWorker> worker)
    : options_(std::move(options)),
      inner_(std::move(inner)),
      local_(local),
      worker_(std::move(worker)),
      agents_(options_.agents.size()) {
    worker_->set_listener(this);
}

std::unique_ptr<HostFabric> HostFabric::create(HostOptions options, std::unique_ptr<Fabric> inner,
                                               ShmFabric* local, std::string* error) {
    auto worker =
        UcxWorker::create(error, options.aliases ? UcxWorker::Use::kAliases : UcxWorker::Use::kMemory);
    if (!worker) return nullptr;
    if (!local->watch(worker->event_fd())) {
        *error = std::string("cannot wait for the network: ") + strerror(errno);
        return nullptr;
    }
    return std::unique_ptr<HostFabric>(
        new HostFabric(std::move(options), std::move(inner), local, std::move(worker)));
}

HostFabric::~HostFabric() {
    worker_->set_listener(nullptr);
    for (Agent& agent : agents_) {
        for (auto& [bytes, key] : agent.keys) worker_->forget_key(key.key);
    }
    worker_.reset();  // before what its last gets and puts have of ours
}

FabricCounters HostFabric::counters() const {
    FabricCounters sum = inner_->counters();
    sum.refused += refused_;
    sum.bytes_bounced += bytes_bounced_;
    sum.bytes_to_host += bytes_to_host_;
    return sum;
}

std::string HostFabric::take_problem() {
    return problem_.empty() ? inner_->take_problem() : std::exchange(problem_, {});
}

Post HostFabric::end(uint64_t id, MoveResult result) {
    done_.push_back(FabricEvent::moved(id, result));
    return Post::kAccepted;
}

// --- where things are

HostFabric::Place HostFabric::find(const MemoryRef& ref, uint64_t bytes) {
    Place place;
    const auto within = [&](std::span<std::byte> all) {
        place.ok = place.here = ref.offset <= all.size() && bytes <= all.size() - ref.offset;
        if (place.ok) place.bytes = all.subspan(ref.offset, bytes);
    };
    const NodeLimits& limits = options_.memory.limits();
    if (ref.rank == kStaging) {
        within(local_->staging());
    } else if (ref.rank.value >= limits.ranks_max || ref.region.value >= limits.regions_max) {
        place.ok = false;
    } else if (ref.region == kArenaRegion) {
        within({options_.memory.arena(ref.rank), limits.arena_bytes});
    } else if (read_host_region(options_.memory.region(ref.rank, ref.region), &place.region,
                                &place.generation)) {
        place.rank = ref.rank;
        place.id = ref.region;
        // A rank's memory is on the host of its own node, whatever its descriptor says.
        place.ok = place.region.node == options_.node && ref.offset <= place.region.bytes &&
                   bytes <= place.region.bytes - ref.offset;
        place.address = place.region.address + ref.offset;
    }
    if (!place.ok) ++refused_;
    return place;
}

// Null: its agent is lost, or has no address that means anything here.
HostFabric::Agent* HostFabric::reach(NodeId node) {
    if (node.value >= agents_.size()) return nullptr;
    Agent& agent = agents_[node.value];
    if (agent.lost || agent.broken) return nullptr;
    if (agent.endpoint == nullptr) agent.endpoint = worker_->connect(options_.agents[node.value]);
    return agent.endpoint != nullptr ? &agent : nullptr;
}

HostFabric::Key* HostFabric::find_key(Agent& agent, const std::vector<std::byte>& key) {
    const auto found = agent.keys.find(key);
    if (found != agent.keys.end()) return &found->second;
    if (agent.keys.size() >= kKeysMax) {
        std::erase_if(agent.keys, [&](auto& entry) {
            if (entry.second.used == 0) worker_->forget_key(entry.second.key);
            return entry.second.used == 0;
        });
    }
    UcxKey* const imported = worker_->import_key(agent.endpoint, key);
    return imported != nullptr ? &agent.keys.emplace(key, Key{imported, 0}).first->second : nullptr;
}

// One that cannot be made is not tried again and again: the next generation of the region is another.
HostFabric::Alias* HostFabric::find_alias(const Place& place) {
    const auto found = aliases_.find({place.rank.value, place.id.value, place.generation});
    if (found != aliases_.end()) return found->second.alias != nullptr ? &found->second : nullptr;
    const bool full = aliases_.size() >= kAliasesMax;
    std::erase_if(aliases_, [&](auto& entry) {
        const auto& [rank, region, generation] = entry.first;
        const bool former = rank == place.rank.value && region == place.id.value;
        if ((!full && !former) || entry.second.used != 0) return false;
        if (entry.second.alias != nullptr) worker_->forget_alias(entry.second.alias);
        return true;
    });
    std::string error = "its agent could not export it";
    Alias made;
    if (!place.region.exported.empty())
        made.alias =
            worker_->import_alias(place.region.exported, place.region.address, place.region.bytes, &error);
    Alias& alias =
        aliases_.emplace(std::tuple{place.rank.value, place.id.value, place.generation}, made).first->second;
    if (alias.alias != nullptr) return &alias;
    ++refused_;
    if (!std::exchange(told_of_alias_, true))
        problem_ = "some memory of node " + std::to_string(options_.node.value) +
                   " has no alias, and its bytes take the way through a service process: " + error;
    return nullptr;
}

// --- moving

HostFabric::Move* HostFabric::begin(const HostRegion& region, uint64_t id, uint64_t* at) {
    Agent* const agent = reach(region.node);
    Key* const key = agent != nullptr ? find_key(*agent, region.key) : nullptr;
    if (key == nullptr) {
        if (region.node.value < agents_.size()) complain(agents_[region.node.value]);
        end(id, MoveResult::kFailed);
        return nullptr;
    }
    if (free_moves_.empty()) {
        free_moves_.push_back(moves_.size());
        moves_.emplace_back();
    }
    *at = free_moves_.back();
    free_moves_.pop_back();
    ++key->used;
    if (agent->moving++ == 0) agent->progress_ns = awake_ns();
    moves_[*at] = {id, region.node.value, key, nullptr, nullptr};
    return &moves_[*at];
}

void HostFabric::get(const HostRegion& region, uint64_t address, std::span<std::byte> to, uint64_t id) {
    uint64_t at = 0;
    if (const Move* move = begin(region, id, &at))
        worker_->get(agents_[move->node].endpoint, move->key->key, address, to, at);
}

void HostFabric::put(const HostRegion& region, std::span<const std::byte> from, uint64_t address, uint64_t id,
                     std::unique_ptr<Bounce> bounce) {
    uint64_t at = 0;
    Move* const move = begin(region, id, &at);
    if (move == nullptr) return;
    bytes_to_host_ += from.size();
    move->bounce = std::move(bounce);
    worker_->put(agents_[move->node].endpoint, move->key->key, from, address, at);
}

void HostFabric::get_to_host(const HostRegion& region, uint64_t address, const Place& to, uint64_t bytes,
                             uint64_t id) {
    uint64_t at = 0;
    Move* const move = begin(region, id, &at);
    if (move == nullptr) return;
    move->alias = find_alias(to);
    std::span<std::byte> there{reinterpret_cast<std::byte*>(to.address), bytes};
    if (move->alias != nullptr) {
        bytes_to_host_ += bytes;
        ++move->alias->used;
    } else {
        move->bounce = std::make_unique<Bounce>(Bounce{to.region, to.address, {}, false});
        move->bounce->bytes.resize(bytes);
        there = move->bounce->bytes;
    }
    worker_->get(agents_[move->node].endpoint, move->key->key, address, there, at,
                 move->alias != nullptr ? move->alias->alias : nullptr);
}

void HostFabric::on_reached(uint64_t move, bool ok) {
    Move ended = std::move(moves_[move]);
    free_moves_.push_back(move);
    --ended.key->used;
    if (ended.alias != nullptr) --ended.alias->used;
    Agent& agent = agents_[ended.node];
    --agent.moving;
    agent.failed |= !ok;
    agent.progress_ns = awake_ns();
    if (ok && ended.bounce && !ended.bounce->fetched) {
        ended.bounce->fetched = true;
        half_way_.emplace_back(ended.id, std::move(ended.bounce));
        return;
    }
    if (ok && ended.bounce) bytes_bounced_ += ended.bounce->bytes.size();
    end(ended.id, ok ? MoveResult::kMoved : MoveResult::kFailed);
}

Post HostFabric::copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
                      uint64_t working_set) {
    if (bytes == 0) return end(id, MoveResult::kMoved);
    const Place source = find(from, bytes), target = find(to, bytes);
    // Without aliases neither card nor agent moves anything from one rank to another by itself.
    if (!source.ok || !target.ok || (!options_.aliases && from.rank != kStaging && to.rank != kStaging))
        return end(id, MoveResult::kFailed);
    if (source.here && target.here) return inner_->copy(from, to, bytes, id, working_set);
    if (source.here) {
        put(target.region, source.bytes, target.address, id);
    } else if (target.here) {
        get(source.region, source.address, target.bytes, id);
    } else {
        get_to_host(source.region, source.address, target, bytes, id);
    }
    return Post::kAccepted;
}

Post HostFabric::read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
                      const AlongPart*) {
    const Import* const import = imports_.find(from);
    if (import == nullptr) return end(id, MoveResult::kFailed);
    if (!import->on_host) return inner_->read(import->owner, import->name, offset, to, bytes, id);
    if (bytes == 0) return end(id, MoveResult::kMoved);
    const HostRegion& region = import->region;
    const Place target = find(to, bytes);
    if (!target.ok || (!options_.aliases && to.rank != kStaging) || offset > region.bytes ||
        bytes > region.bytes - offset)
        return end(id, MoveResult::kFailed);
    if (target.here) {
        get(region, region.address + offset, target.bytes, id);
    } else {
        get_to_host(region, region.address + offset, target, bytes, id);
    }
    return Post::kAccepted;
}

Post HostFabric::write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) {
    if (from.empty()) return end(id, MoveResult::kMoved);
    const Place target = find(to, from.size());
    if (!target.ok) return end(id, MoveResult::kFailed);
    if (target.here) return inner_->write(from, to, id);
    put(target.region, from, target.address, id);
    return Post::kAccepted;
}

Post HostFabric::import_region(ServiceAddress owner, const RegionName& name,
                               std::span<const std::byte> descriptor, uint64_t id) {
    Import import;
    import.on_host = decode_host_region(descriptor, &import.region);
    import.region.exported = {};  // it is for its own node's
    import.owner = owner;
    import.name = name;
    ProcessSpan of_service;
    const bool known = import.on_host ? import.region.node == owner.node && owner.node.value < agents_.size()
                                      : decode_span(descriptor, &of_service);
    done_.push_back(FabricEvent::imported(id, known ? imports_.add(import) : 0));
    return Post::kAccepted;
}

// --- turns

void HostFabric::on_broken(UcxEndpoint* endpoint) {
    for (Agent& agent : agents_) agent.broken |= agent.endpoint == endpoint;
}

void HostFabric::complain(Agent& agent) {
    if (std::exchange(agent.told, true)) return;
    const std::string name = "node " + std::to_string(&agent - agents_.data());
    problem_ = agent.lost ? "the agent of " + name + " is gone: its ranks' memory cannot be reached"
                          : "the memory of " + name + " cannot be reached";
}

// UCX ends what is under way with it.
void HostFabric::lose(Agent& agent) {
    agent.lost = true;
    // At the end of a job agents go before all service processes have: that is nobody's business.
    if (agent.moving != 0 || agent.failed) complain(agent);
    worker_->close(std::exchange(agent.endpoint, nullptr));
}

void HostFabric::look_at_agents(uint64_t now) {
    for (Agent& agent : agents_) {
        const bool silent = agent.moving != 0 && now - std::min(now, agent.progress_ns) >= options_.limit_ns;
        if (!agent.lost && (agent.broken || silent)) lose(agent);
    }
}

void HostFabric::turn() {
    for (int i = 0; i < kStepsPerTurn && worker_->progress(); ++i) {
    }
    while (!half_way_.empty()) {
        auto [id, bounce] = std::move(half_way_.front());
        half_way_.pop_front();
        const Bounce& b = *bounce;
        put(b.to, b.bytes, b.address, id, std::move(bounce));
    }
    look_at_agents(awake_ns());
}

size_t HostFabric::collect(std::span<FabricEvent> events) {
    size_t count = 0;
    while (count < events.size() && !done_.empty()) {
        events[count++] = done_.front();
        done_.pop_front();
    }
    return count;
}

size_t HostFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    turn();
    size_t count = collect(events);
    if (count != 0 || (wait_ns != 0 && !worker_->arm())) wait_ns = 0;
    if (wait_ns != 0) wait_ns = std::min({wait_ns, options_.limit_ns / 8, kAwakeNs / 2});
    count += inner_->poll(events.subspan(count), wait_ns);
    if (count == 0 && wait_ns != 0) {
        turn();
        count = collect(events);
    }
    return count;
}

}  // namespace longshore
