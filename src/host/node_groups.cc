// Groups: everybody tells who it is, the supervisor of each node makes the group, all agree. Before that each
// has told its supervisor which groups it has left: once all have told who they are, whatever place those
// held can be had.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "host/context.h"
#include "host/node_role.h"

namespace longshore {
namespace {

struct GroupIdentity {
    uint64_t id;  // the proposal; group rank 0's counts
    uint32_t world_rank;
    JoinResult result;  // not kOk: this rank cannot even ask its supervisor
};

struct GroupOutcome {
    JoinResult result;  // of this rank's join
};

template <class T>
int exchange(ls_group& g, const T& mine) {
    g.out.assign(sizeof(T), std::byte{0});
    memcpy(g.out.data(), &mine, sizeof(T));
    g.in.assign(sizeof(T) * g.size, std::byte{0});
    return g.exchange.start(g.exchange.user, g.out.data(), g.in.data(), sizeof(T));
}
template <class T>
T member_sent(const ls_group& g, uint32_t rank) {
    T value;
    memcpy(&value, g.in.data() + rank * sizeof(T), sizeof(T));
    return value;
}

// The table that every member builds alike. False: it is none that this node can serve.
bool place_members(ls_group& g) {
    const ls_context& c = *g.context;
    std::vector<uint16_t> local_counts(c.node_count);
    g.id = member_sent<GroupIdentity>(g, 0).id;
    for (uint32_t r = 0; r < g.size; ++r) {
        const auto who = member_sent<GroupIdentity>(g, r);
        if (who.world_rank >= c.size) return false;
        const Place& place = c.places[who.world_rank];
        g.members.push_back({NodeId{place.node}, ServiceId{place.service}, LocalRank{place.local},
                             local_counts[place.node]++});
        g.several_nodes |= place.node != c.node;
        g.nodes += local_counts[place.node] == 1;
        g.ranks_per_node = std::max(g.ranks_per_node, uint32_t{local_counts[place.node]});
    }
    return g.members[g.rank].node.value == c.node && g.members[g.rank].local.value == c.local;
}

uint64_t deadline_of(const ls_context& c) {
    return awake_ns() + c.options.limit_s * 1'000'000'000ull;
}

// Sends as much of the join as the socket takes now. One group at a time: the supervisor puts the pieces of
// one together.
void tell_members(ls_group& g) {
    for (const ls_group* other : g.context->groups) {
        if (other != &g && other->state == ls_group::State::kJoining && other->told > 0 &&
            other->told < other->size)
            return;
    }
    while (g.told < g.size) {
        GroupJoinPiece piece;
        piece.id = g.id;
        piece.size = g.size;
        piece.first = g.told;
        piece.count = std::min(kMembersPerPiece, g.size - g.told);
        std::vector<std::byte> packet(sizeof piece + piece.count * sizeof(Member));
        memcpy(packet.data(), &piece, sizeof piece);
        memcpy(packet.data() + sizeof piece, &g.members[piece.first], piece.count * sizeof(Member));
        const Io io = send_packet(g.context->control, packet.data(), packet.size());
        if (io != Io::kOk) return;
        g.told += piece.count;
    }
}

// True: this rank's join is over, one way or the other.
bool turn_joining(ls_group& g) {
    if (g.result != JoinResult::kOk) return true;
    tell_members(g);
    talk_to_supervisor(*g.context);
    if (g.answered) return true;
    if (!g.context->control)
        g.result = JoinResult::kGone;
    else if (awake_ns() > g.deadline_ns)
        g.result = JoinResult::kNoAnswer;
    return g.result != JoinResult::kOk;
}

int fail(ls_group& g) {
    g.state = ls_group::State::kFailed;
    return LS_ERR_UNAVAILABLE;
}

// Tells the other members who this one is, once its supervisor has been told of all groups that it has left.
int tell_identity(ls_group& g) {
    ls_context& c = *g.context;
    if (!tell_leaves(c)) {
        talk_to_supervisor(c);
        if (awake_ns() <= g.deadline_ns) return LS_IN_PROGRESS;
        g.result = JoinResult::kNoAnswer;
    }
    const GroupIdentity mine{g.id, c.rank, g.result};
    g.state = ls_group::State::kPlacing;
    return exchange(g, mine) == LS_OK ? LS_IN_PROGRESS : fail(g);
}

const char* words_for(JoinResult result) {
    switch (result) {
        case JoinResult::kTableFull:
            return "as many groups are open on its node as there is room for";
        case JoinResult::kMemoryFull:
            return "its node's memory for groups is full";
        case JoinResult::kNoAnswer:
            return "its supervisor did not answer in time";
        case JoinResult::kGone:
            return "its supervisor is gone";
        case JoinResult::kOk:
        case JoinResult::kUnsound:
            break;
    }
    return "its node cannot serve such a group";
}

// Whether all members have told that they are well: one says for all who is not.
template <class T>
bool all_well(const ls_group& g, JoinResult T::*result) {
    for (uint32_t r = 0; r < g.size; ++r) {
        const JoinResult theirs = member_sent<T>(g, r).*result;
        if (theirs == JoinResult::kOk) continue;
        char line[192];
        snprintf(line, sizeof line,
                 "no group can be made for a communicator of %u ranks, because of its rank %u: %s", g.size, r,
                 words_for(theirs));
        if (g.rank == 0) log_line(*g.context, 1, line);
        return false;
    }
    return true;
}

int place(ls_group& g) {
    if (!all_well(g, &GroupIdentity::result)) return fail(g);
    if (!place_members(g)) g.result = JoinResult::kUnsound;
    g.state = ls_group::State::kJoining;
    g.deadline_ns = deadline_of(*g.context);
    return LS_IN_PROGRESS;
}

int agree(ls_group& g) {
    if (!all_well(g, &GroupOutcome::result)) return fail(g);
    g.state = ls_group::State::kReady;
    g.out = {};
    g.in = {};
    g.members = {};
    return LS_OK;
}

int step(ls_group& g) {
    using State = ls_group::State;
    switch (g.state) {
        case State::kLeaving:
            return tell_identity(g);
        case State::kPlacing:
            return place(g);
        case State::kJoining:
            if (!turn_joining(g)) return LS_IN_PROGRESS;
            g.state = State::kAgreeing;
            return exchange(g, GroupOutcome{g.result}) == LS_OK ? LS_IN_PROGRESS : fail(g);
        case State::kAgreeing:
            return agree(g);
        case State::kReady:
            return LS_OK;
        case State::kFailed:
            break;
    }
    return LS_ERR_UNAVAILABLE;
}

}  // namespace

static void drop_group(ls_group* group) {
    ls_context& c = *group->context;
    if (group->joined) c.leaves.push_back(group->id);
    std::erase(c.groups, group);
    delete group;
    tell_leaves(c);
}

static bool is_held(const ls_group& group) {
    return group.joined && group.context->engine && group.context->engine->holds(group.slot);
}

void drop_dying_groups(ls_context& c) {
    c.engine->reap(&c.wake);
    for (size_t i = 0; i < c.groups.size();) {
        ls_group* group = c.groups[i];
        if (group->dying && group->open == 0 && !is_held(*group)) {
            drop_group(group);
        } else {
            ++i;
        }
    }
}

int NodeRole::start_group(const ls_exchange& given, ls_group** out) {
    if (c_.state != ls_context::State::kReady) return LS_ERR_UNAVAILABLE;
    drop_dying_groups(c_);
    auto g = std::make_unique<ls_group>();
    g->context = &c_;
    g->exchange = given;
    g->rank = given.rank;
    g->size = given.size;
    g->id = uint64_t{c_.rank} << 40 | c_.next_group++;
    g->deadline_ns = deadline_of(c_);
    if (tell_identity(*g) != LS_IN_PROGRESS) return LS_ERR_UNAVAILABLE;
    c_.groups.push_back(g.get());
    *out = g.release();
    return LS_OK;
}

int NodeRole::test_group(ls_group& group) {
    if (group.state == ls_group::State::kPlacing || group.state == ls_group::State::kAgreeing) {
        const int rc = group.exchange.test(group.exchange.user);
        if (rc == LS_IN_PROGRESS) return rc;
        if (rc != LS_OK) return fail(group);
    }
    return step(group);
}

void NodeRole::free_group(ls_group* group) {
    group->dying = true;
    if (c_.engine) c_.engine->reap(&c_.wake);
    if (group->open == 0 && !is_held(*group)) drop_group(group);
}

}  // namespace longshore
