#include "simulator/world.h"

#include <algorithm>
#include <cstdio>

#include "engine/mover.h"
#include "simulator/far_rank.h"
#include "simulator/service_actor.h"

namespace longshore::sim {
namespace {

constexpr uint64_t kEventsMax = 4000000;
constexpr uint64_t kEventsMaxLarge = 400000000;
constexpr uint64_t kFaultsNs = 20000000;      // faults stop then
constexpr uint64_t kAbandonNs = 500000000;    // without a read or copy, after a rank was lost
constexpr uint64_t kLivenessNs = 3000000000;  // in which a move must have ended, or everything be over

// Events of kind kControl.
enum class Control : uint64_t {
    kDoom,
    kRestart,
    kFree,
    kCalm,
    kLose,
    kEndStandIn,
    kEndRank,
    kForget,
    kAbandon,
    kEndAgent,
    kLoseService
};
constexpr uint64_t control_value(Control c, uint64_t what) {
    return static_cast<uint64_t>(c) | what << 8;
}

}  // namespace

std::vector<uint16_t> World::rank_counts(const WorldOptions& o) {
    std::vector<uint16_t> counts;
    for (uint32_t n = 0; n < o.nodes; ++n) counts.push_back(static_cast<uint16_t>(o.ranks_of_node[n]));
    return counts;
}

namespace {

// The members of a group, and how many there are on each node.
std::vector<Member> members_of(const WorldOptions& o, const Program& program, const Group& group,
                               uint16_t* counts) {
    std::vector<uint16_t> local_index(o.nodes);
    std::vector<Member> members;
    for (const uint32_t r : group.members) {
        const Place& p = program.places[r];
        members.push_back({p.node, p.service, p.local, local_index[p.node.value]++});
    }
    if (counts != nullptr) std::copy(local_index.begin(), local_index.end(), counts);
    return members;
}

}  // namespace

std::vector<NodeLimits> World::make_limits(const WorldOptions& o, const Program& p) {
    std::vector<NodeLimits> all;
    for (uint32_t n = 0; n < o.nodes; ++n) {
        NodeLimits l;
        l.ranks_max = o.ranks_of_node[n];
        l.services_max = o.services_of_node[n];
        l.groups_max = o.groups;
        l.operations_ahead_max = o.ahead;
        l.records_max = o.records;
        l.regions_max = o.regions;
        l.chunk_bytes = o.chunk_bytes;
        l.claims_bytes = o.claims_bytes;
        l.arena_bytes = o.arena_bytes;
        l.groups_bytes = 0;
        for (const Group& g : p.groups)
            l.groups_bytes +=
                NodeMemory::group_bytes(l, members_of(o, p, g, nullptr), NodeId{static_cast<uint16_t>(n)});
        all.push_back(l);
    }
    return all;
}

World::World(const WorldOptions& o, Workspace& workspace, bool verbose)
    : options(o),
      scheduler(o.seed),
      program(Program::draw(o)),
      limits(make_limits(o, program)),
      memory(workspace, options, limits.data(), rank_counts(o).data(), program.buffer_bytes),
      fabric(options, scheduler, memory),
      verbose_(verbose),
      workspace_(workspace) {
    send_offsets.resize(program.operations.size());
    entered.resize(program.operations.size());
    for (const Operation& op : program.operations) send_offsets[op.index].resize(op.size);

    for (uint32_t n = 0; n < o.nodes; ++n) {
        uint64_t data = memory.node(n).group_data_begin();
        for (uint32_t g = 0; g < program.groups.size(); ++g) {
            const Group& group = program.groups[g];
            uint16_t local_index[kNodesMax] = {};
            const std::vector<Member> members = members_of(o, program, group, local_index);
            if (local_index[n] == 0) continue;
            memory.node(n).create_group(GroupSlot{g}, GroupId{group.id}, members.data(),
                                        static_cast<uint32_t>(members.size()), data);
            data += memory.node(n).group(GroupSlot{g}).data_bytes;
        }
    }
    uint64_t rank_bytes = 0;
    for (const NodeLimits& l : limits)
        rank_bytes += (RankEngine::bytes_needed(l) + 63) / 64 * 64 * l.ranks_max;
    std::byte* at = workspace.ranks.get(rank_bytes, true);
    rank_index_.resize(o.nodes);
    for (uint32_t n = 0; n < o.nodes; ++n) rank_index_[n].resize(o.ranks_of_node[n]);
    for (uint32_t r = 0; r < o.ranks; ++r) {
        const Place& p = program.places[r];
        rank_index_[p.node.value][p.local.value] = r;
        if (o.dpus)
            ranks_.push_back(std::make_unique<FarRank>(*this, r, at));
        else
            ranks_.push_back(std::make_unique<RankActor>(*this, r, at));
        at += (RankEngine::bytes_needed(limits[p.node.value]) + 63) / 64 * 64;
    }
    const ServiceLimits service_limits = ServiceActor::limits(o);
    uint64_t service_bytes = 0;
    for (uint32_t n = 0; n < o.nodes; ++n)
        service_bytes += ServiceEngine::bytes_needed(limits[n], service_limits) * o.services_of_node[n];
    at = workspace.services.get(service_bytes, false);
    for (uint32_t n = 0; n < o.nodes; ++n)
        for (uint32_t s = 0; s < o.services_of_node[n]; ++s) {
            const uint64_t bytes = ServiceEngine::bytes_needed(limits[n], service_limits);
            const ServiceAddress a{NodeId(static_cast<uint16_t>(n)), ServiceId(static_cast<uint16_t>(s))};
            services_.push_back(
                std::make_unique<ServiceActor>(*this, a, static_cast<uint32_t>(services_.size()), at, bytes));
            at += bytes;
        }

    fabric.on_arrival = [this](uint32_t i) { services_[i]->arrived(); };
    fabric.on_wake = [this](ServiceAddress a, const WakeSet& w) { ring(a.node, w); };
    fabric.on_stage = [this](uint32_t i, bool whole) { services_[i]->on_stage(whole); };
    fabric.host_sight = [this](NodeId node, LocalRank rank) { return ranks_[rank_at(node, rank)]->sight(); };
    fabric.on_violation = [this](const std::string& what) { fail("access", what); };
}

World::~World() = default;

void World::fail(const char* oracle, const std::string& detail) {
    if (failed_) return;
    failed_ = true;
    verdict_.ok = false;
    verdict_.oracle = oracle;
    verdict_.detail = detail;
}

void World::log(const std::string& line) {
    printf("%12llu %s\n", static_cast<unsigned long long>(scheduler.now_ns()), line.c_str());
}

void World::ring(NodeId node, const WakeSet& wake) {
    if (!wake.any()) return;
    for (uint32_t w = 0; w < kRanksPerNodeMax / 64; ++w)
        for (uint64_t bits = wake.ranks[w]; bits != 0; bits &= bits - 1) {
            const uint32_t local = w * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
            const uint32_t rank = rank_index_[node.value][local];
            if (options.merge_wakes && !ranks_[rank]->expect_wake()) continue;
            scheduler.post(scheduler.around(options.wake_ns), EventKind::kRankWake, rank);
        }
    for (uint32_t bits = wake.services; bits != 0; bits &= bits - 1) {
        const ServiceAddress a{node, ServiceId(static_cast<uint16_t>(__builtin_ctz(bits)))};
        scheduler.post(scheduler.around(options.wake_ns), EventKind::kServiceWake, fabric.index(a));
    }
}

void World::kill_service(uint32_t index, KillPhase phase) {
    ServiceActor& s = *services_[index];
    if (!s.alive()) return;
    if (verbose_) log(s.describe() + " is killed, phase " + std::to_string(static_cast<int>(phase)));
    s.die(phase);
    if (options.restart) {
        if (scheduler.random.chance(500))
            scheduler.post(scheduler.around(500000), EventKind::kControl, index,
                           control_value(Control::kFree, 0));
        scheduler.post(1000000 + scheduler.around(1000000), EventKind::kControl, index,
                       control_value(Control::kRestart, 0));
    } else {
        coverage.finished_alone = 1;
        gone_on_node_[s.self().node.value] = true;
        scheduler.post(scheduler.around(500000), EventKind::kControl, index,
                       control_value(Control::kFree, 0));
    }
}

void World::control(uint64_t value) {
    // The actor is in the upper bits here.
    const uint32_t index = static_cast<uint32_t>(value >> 8);
    const Control what = static_cast<Control>(value & 255);
    if (what == Control::kEndStandIn || what == Control::kEndRank)
        return ranks_[index]->end(what == Control::kEndStandIn ? RankActor::Part::kStandIn
                                                               : RankActor::Part::kProcess);
    if (what == Control::kEndAgent) return end_agent(ranks_[index]->place().node);
    if (what == Control::kForget) return forget_rank(index);
    if (what == Control::kAbandon) return abandon();
    if (what == Control::kLoseService) return lose_service(index);
    ServiceActor& s = *services_[index];
    switch (what) {
        case Control::kDoom: {
            if (calm || kills_left_ == 0) break;
            --kills_left_;
            const KillPhase phase = static_cast<KillPhase>(options.kill_phase);
            if (phase == KillPhase::kAny || phase == KillPhase::kAny2)
                kill_service(index, KillPhase::kAny);
            else
                s.doom(phase, static_cast<uint32_t>(scheduler.random.between(1, 4)));
            break;
        }
        case Control::kFree: {
            // The kernel says that it is gone: some rank of the node frees what it held.
            if (s.alive() || is_lost(s.self().node)) break;
            WakeSet wake;
            free_lost_claims(memory.node(s.self().node.value),
                             service_worker(s.self().service, s.incarnation()), &wake);
            if (gone_on_node_[s.self().node.value])
                for (auto& r : ranks_)
                    if (r->place().node == s.self().node) r->work_alone();
            ring(s.self().node, wake);
            break;
        }
        case Control::kRestart:
            if (s.alive() || is_lost(s.self().node) || gone_[index]) break;
            fabric.restart(index);
            coverage.restarted = 1;
            s.start();
            if (verbose_) log(s.describe() + " starts again");
            break;
        case Control::kCalm:
            calm = fabric.calm = true;
            for (auto& each : services_) each->doom(KillPhase::kAny, 0);
            break;
        case Control::kLose:
            lose_node();
            break;
        case Control::kEndStandIn:
        case Control::kEndRank:
        case Control::kForget:
        case Control::kAbandon:
        case Control::kEndAgent:
        case Control::kLoseService:
            break;
    }
}

void World::end_agent(NodeId node) {
    if (verbose_) log("the agent of node " + std::to_string(node.value) + " is lost");
    for (auto& r : ranks_)
        if (r->place().node == node) r->end(RankActor::Part::kAgent);
}

void World::notice_loss(uint32_t rank) {
    if (!ranks_lost_) scheduler.post(kAbandonNs, EventKind::kControl, 0, control_value(Control::kAbandon, 0));
    ranks_lost_ = true;
    scheduler.post(scheduler.around(500000), EventKind::kControl, rank, control_value(Control::kForget, 0));
}

// As a supervisor does (service/node_ranks.cc).
void World::forget_rank(uint32_t rank) {
    const Place& place = ranks_[rank]->place();
    NodeMemory& node = memory.node(place.node.value);
    node.rank(place.local).attached.store(0);
    WakeSet wake;
    free_lost_claims(node, rank_worker(place.local), &wake);
    ring(place.node, wake);
}

// A job that has lost a rank ends; but first all that can come to its end does.
void World::abandon() {
    if (scheduler.now_ns() < std::max(last_read_ns, last_handed_ns) + kAbandonNs) {
        scheduler.post(kAbandonNs, EventKind::kControl, 0, control_value(Control::kAbandon, 0));
        return;
    }
    for (auto& r : ranks_) r->abandon();
}

void World::lose_node() {
    const NodeId node{static_cast<uint16_t>(options.lost_node - 1)};
    if (verbose_) log("node " + std::to_string(node.value) + " is lost");
    if (ranks_done != ranks_.size()) coverage.lost_nodes = 1;
    node_lost_ = true;
    for (auto& s : services_)
        if (s->self().node == node) s->die(KillPhase::kAny);
    for (auto& r : ranks_)
        if (r->place().node == node) r->die();
    fabric.lose_node(node);
}

// Its process may take some time to be over, and its claims are freed then: before or after ranks give up.
// The supervisor ends the node's others, too: ranks give up all that goes beyond the node, and peers of those
// others are to know.
void World::lose_service(uint32_t index) {
    ServiceActor& s = *services_[index];
    const NodeId node = s.self().node;
    if (gone_[index]) return;
    gone_[index] = true;
    if (verbose_) log(s.describe() + " is lost for good");
    if (ranks_done != ranks_.size()) coverage.lost_services = 1;
    if (gone_since_ns_[node.value] == 0) gone_since_ns_[node.value] = scheduler.now_ns();
    gone_on_node_[node.value] = true;
    s.die(KillPhase::kAny);
    fabric.lose(index);
    scheduler.post(scheduler.around(options.limit_ns), EventKind::kControl, index,
                   control_value(Control::kFree, 0));
    if (options.version < 11) return;
    for (uint32_t i = 0; i < services_.size(); ++i)
        if (!gone_[i] && services_[i]->self().node == node)
            scheduler.post(scheduler.around(options.limit_ns / 100), EventKind::kControl, i,
                           control_value(Control::kLoseService, 0));
}

bool World::lost_member(uint32_t group) const {
    for (uint32_t r : program.groups[group].members) {
        const NodeId node = program.places[r].node;
        if (is_lost(node) || gone_since_ns(node) != 0 || ranks_[r]->lost()) return true;
    }
    return false;
}

bool World::gave_up(uint32_t group) const {
    if (options.lost_service == 0) return false;
    for (uint32_t r : program.groups[group].members)
        if (ranks_[r]->lost()) return true;
    return false;
}

void World::dispatch(const Event& e) {
    switch (e.kind) {
        case EventKind::kRank:
            if (ranks_[e.actor]->expects(e.value)) ranks_[e.actor]->step();
            break;
        case EventKind::kRankWake:
            ranks_[e.actor]->woken();
            break;
        case EventKind::kService:
            if (services_[e.actor]->expects(e.value)) services_[e.actor]->step();
            break;
        case EventKind::kServiceWake:
            services_[e.actor]->rung();
            break;
        case EventKind::kFabric:
            fabric.on_event(e.actor, e.value);
            break;
        case EventKind::kTick:
            if (services_[e.actor]->expects(e.value)) services_[e.actor]->tick();
            break;
        case EventKind::kStandIn:
            ranks_[e.actor]->step_stand_in(e.value);
            break;
        case EventKind::kAgent:
            ranks_[e.actor]->step_agent(e.value);
            break;
        case EventKind::kSession:
            ranks_[e.actor]->arrive(e.value);
            break;
        case EventKind::kControl:
            control((e.value & 255) | uint64_t{e.actor} << 8);
            break;
    }
}

Verdict World::run() {
    for (auto& s : services_) s->start();
    kills_left_ = options.kills;
    for (uint32_t i = 0; i < options.kills; ++i)
        scheduler.post(scheduler.random.below(2 * options.late_ns + 300000), EventKind::kControl,
                       static_cast<uint32_t>(scheduler.random.below(services_.size())),
                       control_value(Control::kDoom, 0));
    for (uint32_t i = 0; i < options.ends; ++i) {
        const uint64_t when = scheduler.random.below(2 * options.late_ns + 300000);
        const auto rank = static_cast<uint32_t>(scheduler.random.below(ranks_.size()));
        const Control one = scheduler.random.chance(500) ? Control::kEndStandIn : Control::kEndRank;
        const bool agent = options.agents != 0 && scheduler.random.chance(400);
        scheduler.post(when, EventKind::kControl, rank, control_value(agent ? Control::kEndAgent : one, 0));
    }
    if (options.lost_node != 0)
        scheduler.post(options.lost_ns, EventKind::kControl, 0, control_value(Control::kLose, 0));
    if (options.lost_service != 0)
        scheduler.post(options.lost_ns, EventKind::kControl, options.lost_service - 1,
                       control_value(Control::kLoseService, 0));
    if (options.faults()) scheduler.post(kFaultsNs, EventKind::kControl, 0, control_value(Control::kCalm, 0));

    gone_.resize(services_.size());

    Event e;
    uint64_t drained_until = 0;
    while (!failed_) {
        if (ranks_done == ranks_.size()) {
            // What is under way comes to rest: acknowledgements, messages, ticks that clean up.
            if (drained_until == 0) drained_until = scheduler.now_ns() + 200000000;
            if (scheduler.next_ns() > drained_until) break;
        } else if (scheduler.live() == 0 && options.lossless()) {
            fail("lost wake-up", "nothing will happen any more:\n" + stuck());
            break;
        }
        if (!scheduler.pop(&e)) break;
        dispatch(e);
        if (scheduler.count() > (options.large ? kEventsMaxLarge : kEventsMax) ||
            scheduler.now_ns() > std::max(last_read_ns, last_copy_ns) + kLivenessNs)
            fail("liveness", "not over after " + std::to_string(scheduler.count()) + " events, " +
                                 std::to_string(scheduler.now_ns()) + " ns:\n" + stuck());
    }
    if (!failed_) judge_end();
    verdict_.hash = scheduler.hash();
    verdict_.events = scheduler.count();
    verdict_.virtual_ns = scheduler.now_ns();
    coverage.worlds = 1;
    coverage.crowded_worlds = options.ranks > 8 && options.nodes > 2;
    coverage.events = scheduler.count();
    coverage.along = fabric.reads_along != 0;
    coverage.bytes_between_nodes = fabric.bytes_between_nodes;
    verdict_.coverage = coverage;
    return verdict_;
}

void World::judge_end() {
    for (auto& r : ranks_) r->judge_end();
    // Of operations that somebody who is lost has not entered, or that were given up, something is left.
    for (auto& s : services_)
        if (!ranks_lost_ && options.lost_service == 0) s->judge_end();
    judge_once();
    if (!options.large) judge_moved();
    if (options.lossless() && !options.not_permitted && !node_lost_ &&
        fabric.bytes_between_nodes != program.bytes_between_nodes)
        fail("bytes between nodes", "moved " + std::to_string(fabric.bytes_between_nodes) + ", must be " +
                                        std::to_string(program.bytes_between_nodes));
}

// Every byte of every block has been moved once, by whomever.
void World::judge_moved() {
    std::vector<uint64_t> due(ranks_.size());
    for (const Operation& op : program.operations)
        for (uint32_t d = 0; d < op.size; ++d)
            for (uint32_t s = 0; s < op.size; ++s)
                if (s != d) due[program.groups[op.group].members[d]] += op.bytes(s, d);
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
        const Place& place = program.places[r];
        if (is_lost(place.node)) continue;
        const RankSlot& slot = memory.node(place.node.value).rank(place.local);
        uint64_t moved = 0;
        for (uint32_t c = 0; c < kCollectives; ++c)
            moved += slot.bytes_by_service[c].load() + slot.bytes_by_rank[c].load();
        const bool all = !options.unreadable && !options.import_fails && !node_lost_ && !ranks_lost_ &&
                         !copies_lost && options.lost_service == 0;
        if (moved > due[r] || (all && moved != due[r]))
            fail("moved once", "rank " + std::to_string(r) + " got " + std::to_string(moved) +
                                   " bytes, must get " + std::to_string(due[r]));
    }
}

// Of a shared block of another node a DPU brings its host what comes once, and what neither ranks nor agents
// have copied.
void World::judge_once() {
    if (!options.dpus || options.kills != 0 || node_lost_ || ranks_lost_) return;
    for (const Operation& op : program.operations) {
        if (!op.sends_same()) continue;
        const std::vector<uint32_t>& members = program.groups[op.group].members;
        for (uint32_t n = 0; n < options.nodes; ++n) {
            uint64_t most = 0, written = 0;
            for (uint32_t s = 0; s < op.size; ++s) {
                const bool here = program.places[members[s]].node.value == n;
                const bool in_arena = here && ranks_[members[s]]->gave_by_arena(op.index);
                uint64_t for_copiers = 0;
                for (uint32_t d = 0; d < op.size; ++d) {
                    if (program.places[members[d]].node.value != n) continue;
                    if (in_arena || !ranks_[members[d]]->copied_all(op.index)) {
                        most += op.bytes(s, d);
                    } else {
                        for_copiers = std::max<uint64_t>(for_copiers, op.bytes(s, d));
                    }
                }
                most += here ? 0 : for_copiers;
            }
            for (const uint32_t r : members)
                if (program.places[r].node.value == n) written += ranks_[r]->written(op.index);
            if (written > most)
                fail("once", "operation " + std::to_string(op.index) + " brought " + std::to_string(written) +
                                 " bytes to host " + std::to_string(n) + ", at most " + std::to_string(most));
        }
    }
}

std::string World::stuck() const {
    std::string t;
    for (const auto& r : ranks_)
        if (!r->done()) t += "  " + r->describe() + "\n";
    for (const auto& s : services_) t += "  " + s->describe() + "\n";
    return t;
}

}  // namespace longshore::sim
