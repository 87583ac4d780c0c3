#include "simulator/service_actor.h"

#include <algorithm>
#include <cstring>

#include "simulator/text.h"

namespace longshore::sim {
namespace {

constexpr uint64_t kTickNs = 50000000;
constexpr uint64_t kYieldedNs = 100000;
constexpr uint64_t kCopyBit = uint64_t{1} << 40;  // ids of copies; the engine's are 32 bits

}  // namespace

ServiceLimits ServiceActor::limits(const WorldOptions& o) {
    ServiceLimits l;
    l.nodes_max = o.nodes;
    l.services_per_node_max = *std::max_element(o.services_of_node, o.services_of_node + o.nodes);
    l.watches_max = o.watches;
    l.group_size_max = o.ranks;
    l.reads_max = o.reads;
    l.reads_queued_max = o.queued;
    l.rows_max = o.held;
    l.eager_max = o.eager;
    l.eager_bytes = o.eager_bytes;
    l.staging_slots = o.staging_slots;
    l.staging_slot_bytes = o.staging_slot_bytes;
    l.staging_only = o.staging_only;
    l.help_bytes = o.help_bytes;
    l.repeat_ticks = o.repeat_ticks;
    l.sends_along = o.along != 0;
    l.serial = o.last_count();
    if (o.ranks > 256) l.frame_bytes = 1536;  // one per peer, and every service process is everybody's peer
    return l;
}

ServiceActor::ServiceActor(World& world, ServiceAddress self, uint32_t index, std::byte* block,
                           uint64_t block_bytes)
    : world_(world),
      self_(self),
      index_(index),
      memory_(world.memory.node(self.node.value)),
      block_(block),
      block_bytes_(block_bytes) {
    memory_.service(self_.service).events.store(world.options.last_count());
}

void ServiceActor::start() {
    const ServiceLimits l = limits(world_.options);
    ++incarnation_;
    alive_ = true;
    asleep_ = falling_asleep_ = false;
    ++life_;
    ServiceSlot& slot = memory_.service(self_.service);
    slot.sleeping.store(0);
    slot.incarnation.store(incarnation_);
    WakeSet wake;
    engine_.emplace(block_, memory_, self_.service, incarnation_, l, &wake);
    DescribedOptions described;
    described.memory = memory_;
    described.self = self_;
    described.incarnation = incarnation_;
    described.regions_max = world_.options.imports;
    fabric_.emplace(described, world_.fabric.fabric(self_));
    uint16_t counts[kNodesMax];
    for (uint32_t n = 0; n < world_.options.nodes; ++n)
        counts[n] = static_cast<uint16_t>(world_.options.services_of_node[n]);
    engine_->set_peers({counts, world_.options.nodes});
    engine_->yield_to_waiting_ranks(world_.options.yields);
    if (world_.options.read_window != 0) engine_->set_read_window(world_.options.read_window);
    deliver(wake);
    again(1000);
    world_.scheduler.post(kTickNs, EventKind::kTick, index_, life_);
}

void ServiceActor::again(uint64_t mean_ns) {
    world_.scheduler.post(world_.scheduler.around(mean_ns), EventKind::kService, index_, life_);
}

void ServiceActor::rung() {
    if (!alive_ || !asleep_) return;
    asleep_ = false;
    memory_.service(self_.service).sleeping.store(0);
    again(world_.options.step_ns + world_.options.core_wait_ns);
}

void ServiceActor::arrived() {
    rung();
}

void ServiceActor::tick() {
    WakeSet wake;
    engine_->on_tick(&wake);
    fabric_->on_tick();
    deliver(wake);
    world_.scheduler.post(kTickNs, EventKind::kTick, index_, life_);
    rung();
}

bool ServiceActor::doomed_at(KillPhase phase) {
    if (doom_count_ == 0 || doom_ != phase || --doom_count_ != 0) return false;
    world_.kill_service(index_, phase);
    return true;
}

void ServiceActor::on_stage(bool whole) {
    if (alive_) doomed_at(whole ? KillPhase::kMoved : KillPhase::kHalf);
}

// False: it has died of it.
bool ServiceActor::take_events() {
    FabricEvent events[8];
    const size_t n = fabric_->poll(events, 0);
    for (size_t i = 0; i < n; ++i) {
        const FabricEvent& e = events[i];
        WakeSet wake;
        engine_->set_now(world_.scheduler.now_ns());
        world_.scheduler.note(static_cast<uint64_t>(e.kind) << 50 ^ e.id);
        if (world_.verbose())
            log(e.kind == FabricEvent::Kind::kMessage
                    ? "gets from " + name_of(e.peer) + ": " + text_of_frame(e.message)
                    : "event " + std::to_string(static_cast<int>(e.kind)) + " id " + std::to_string(e.id) +
                          " result " + std::to_string(static_cast<int>(e.result)));
        switch (e.kind) {
            case FabricEvent::Kind::kMessage:
                engine_->on_frame(e.message, &wake);
                break;
            case FabricEvent::Kind::kMoved: {
                const auto copy = copies_.find(e.id);
                if (copy != copies_.end()) {
                    if (e.result == MoveResult::kNotPermitted) world_.coverage.rank_only = 1;
                    world_.last_copy_ns = world_.scheduler.now_ns();
                    engine_->finish_copy(copy->second, e.result, &wake);
                    copies_.erase(copy);
                } else {
                    if (world_.options.window_changes)
                        engine_->set_read_window(1 + world_.scheduler.random.below(10000));
                    engine_->finish_read(static_cast<uint32_t>(e.id), e.result, &wake);
                    world_.last_read_ns = world_.scheduler.now_ns();
                    if (e.result == MoveResult::kMoved && doomed_at(KillPhase::kLanded)) return false;
                }
                break;
            }
            case FabricEvent::Kind::kImported:
                LONGSHORE_CHECK(!"a Fabric reads by names");
                break;
            case FabricEvent::Kind::kPeerLost:
                engine_->on_peer_lost(e.peer, &wake);
                break;
        }
        deliver(wake);
    }
    return true;
}

// False: refused, or it has died; else done.
bool ServiceActor::carry_out(const Action& a) {
    DescribedFabric& fabric = *fabric_;
    Post post = Post::kAccepted;
    switch (a.kind) {
        case Action::Kind::kCopy:
            if (a.copy.doomed != 0) {
                WakeSet wake;
                engine_->finish_copy(a.copy, MoveResult::kFailed, &wake);
                deliver(wake);
                break;
            }
            post = fabric.copy(a.copy.from, a.copy.to, a.copy.bytes, kCopyBit + copy_number_);
            if (post == Post::kAccepted) copies_.emplace(kCopyBit + copy_number_++, a.copy);
            break;
        case Action::Kind::kRead:
            post = fabric.read(a.peer, a.name, a.offset, a.to, a.bytes, a.id, a.along ? &a.part : nullptr);
            break;
        case Action::Kind::kMove:
            post = fabric.copy(a.from, a.to, a.bytes, a.id);
            break;
        case Action::Kind::kWrite:
            post = fabric.write(a.data, a.to, a.id);
            break;
        case Action::Kind::kSend:
            post = fabric.send(a.peer, a.data);
            break;
        case Action::Kind::kSendAlong:
            fabric.send_along(a.peer, a.part.block, a.name, a.offset, a.bytes);
            break;
    }
    return post == Post::kAccepted;
}

// One timer at a time.
void ServiceActor::look_again() {
    if (world_.scheduler.now_ns() < look_at_ns_) return;
    look_at_ns_ = world_.scheduler.now_ns() + kYieldedNs;
    world_.scheduler.post(kYieldedNs, EventKind::kServiceWake, index_);
}

void ServiceActor::step() {
    ServiceSlot& slot = memory_.service(self_.service);
    SimFabric& fabric = world_.fabric.fabric(self_);
    for (uint32_t i = 0; i < world_.options.actions_per_step; ++i) {
        // As a fabric sleeps: the engine is not asked once more.
        if (falling_asleep_) {
            falling_asleep_ = false;
            if (slot.events.load() == events_seen_ && !fabric.arrived() && !fabric_->busy()) {
                // A rank that stops waiting does not ring.
                if (engine_->yielded()) look_again();
                asleep_ = true;
                return;
            }
            slot.sleeping.store(0);
        }
        // Several actions to a poll, as in the service loop.
        if ((i == 0 || fabric.arrived()) && !take_events()) return;
        if (kept_) {
            if (!carry_out(*kept_)) return again(world_.options.step_ns * 4);
            kept_.reset();
            continue;
        }
        events_seen_ = slot.events.load();
        Action a;
        WakeSet wake;
        // At most so many copies at a time; reads are the engine's own business.
        const bool full = copies_.size() >= world_.options.copies_in_flight;
        engine_->set_now(world_.scheduler.now_ns());
        const bool has = !full && engine_->next(&a, &wake);
        deliver(wake);
        if (!has && full) {
            if (fabric.arrived() || fabric_->busy()) return again(world_.options.step_ns);
            asleep_ = true;  // its own completion wakes it
            return;
        }
        if (!has && fabric_->busy()) {  // what was asked for meanwhile goes out
            if (!take_events()) return;
            if (fabric_->busy()) return again(world_.options.step_ns * 4);
            continue;
        }
        if (!has) {
            falling_asleep_ = true;
            slot.sleeping.store(1);
            return again(world_.options.step_ns);
        }
        world_.scheduler.note(static_cast<uint64_t>(a.kind) << 52 ^ a.bytes ^ a.copy.bytes);
        if (world_.verbose())
            log("does " + std::to_string(static_cast<int>(a.kind)) + " id " + std::to_string(a.id) +
                " bytes " + std::to_string(a.bytes + a.copy.bytes) +
                (a.kind == Action::Kind::kSend ? " to " + name_of(a.peer) + ": " + text_of_frame(a.data)
                                               : ""));
        if (a.kind == Action::Kind::kCopy && doomed_at(KillPhase::kClaimed)) return;
        if (a.kind == Action::Kind::kSend && doomed_at(KillPhase::kBeforeSend)) return;
        if (!carry_out(a)) {
            kept_ = a;
            return again(world_.options.step_ns * 4);
        }
    }
    again(world_.options.step_ns);
}

void ServiceActor::log(const std::string& what) {
    world_.log(name_of(self_) + " " + what);
}

void ServiceActor::die(KillPhase phase) {
    if (!alive_) return;
    if (world_.fabric.kill(index_)) world_.coverage.killed_before_landed = 1;
    if (phase == KillPhase::kLanded) world_.coverage.killed_before_acknowledged = 1;
    count_coverage();
    alive_ = false;
    ++life_;
    kept_.reset();
    copies_.clear();
    doom_count_ = 0;
    memory_.service(self_.service).sleeping.store(0);
}

void ServiceActor::count_coverage() {
    const ServiceCounters& c = engine_->counters();
    Coverage& v = world_.coverage;
    for (const LateCounters& late : c.late) {
        v.handed_on |= late.handed_on != 0;
        v.parked |= late.parked != 0;
        v.rescued |= late.rescued != 0;
        v.late_arrivals |= late.late != 0;
        if (late.parked_longest_ns > late.parked_ns || late.parked_longest_ns > world_.scheduler.now_ns())
            world_.fail("late", describe() + " counts more time parked than there was");
    }
    v.pool_full |= c.pool_full + c.dropped != 0;
    v.stale_messages |= c.stale_messages + fabric_->talk().stale != 0;
    v.resent |= c.notifications_resent != 0;
    v.duplicates |= c.duplicates != 0;
    v.staged |= c.bytes_staged != 0;
    v.taken_copies |= c.taken != c.taken_reads;
    v.taken_reads |= c.taken_reads != 0;
    for (uint32_t r = 0; r < memory_.rank_count(); ++r)
        for (const auto& landed : memory_.rank(LocalRank(static_cast<uint16_t>(r))).bytes_landed)
            v.landed |= landed.load() != 0;
    v.relayed |= c.bytes_relayed != 0;
    v.relays_refused |= c.relays_refused != 0;
    if (c.relays_overdue != 0) world_.fail("net", describe() + " gave up a parent in a broadcast");
    v.staged_for_others |= c.staged_for_others != 0;
    v.copies += c.copies;
    v.reads += c.reads;
    v.evicted |= fabric_->regions().evicted != 0;
    v.asked_again |= fabric_->regions().asked_again != 0;
    if (c.malformed_messages + fabric_->counters().refused != 0)
        world_.fail("messages", describe() + " refused a message as malformed");
}

void ServiceActor::judge_end() {
    if (!alive_) return;
    count_coverage();
    if (!engine_->idle()) world_.fail("leak", describe() + ": not idle");
    if (fabric_->regions().reads != 0) world_.fail("leak", describe() + ": reads under way");
    if (!copies_.empty()) world_.fail("leak", describe() + ": copies in flight");
}

std::string ServiceActor::describe() const {
    return name_of(self_) + " incarnation " + std::to_string(incarnation_) + (alive_ ? "" : " dead") +
           (asleep_ ? " asleep" : "") +
           (kept_ ? " with a kept action " + std::to_string(static_cast<int>(kept_->kind)) : "") +
           " copies " + std::to_string(copies_.size()) + (alive_ && !engine_->idle() ? " not idle" : "");
}

}  // namespace longshore::sim
