// Groups: everybody tells who it is, the supervisor of each node makes the group, all agree.
#include <string.h>

#include <algorithm>

#include "host/context.h"
#include "host/node_role.h"

namespace longshore {
namespace {

struct GroupIdentity {
    uint64_t id;  // the proposal; group rank 0's counts
    uint32_t world_rank, ok;
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

// The table that every member builds alike.
bool place_members(ls_group& g) {
    const ls_context& c = *g.context;
    std::vector<uint16_t> local_counts(c.node_count);
    g.id = member_sent<GroupIdentity>(g, 0).id;
    for (uint32_t r = 0; r < g.size; ++r) {
        const auto who = member_sent<GroupIdentity>(g, r);
        if (!who.ok || who.world_rank >= c.size) return false;
        const Place& place = c.places[who.world_rank];
        g.members.push_back({NodeId{place.node}, ServiceId{place.service}, LocalRank{place.local},
                             local_counts[place.node]++});
        g.several_nodes |= place.node != c.node;
        g.nodes += local_counts[place.node] == 1;
        g.ranks_per_node = std::max(g.ranks_per_node, uint32_t{local_counts[place.node]});
    }
    return g.members[g.rank].node.value == c.node && g.members[g.rank].local.value == c.local;
}

// Sends the rest of the join; false: try again later. One group at a time: the supervisor puts the pieces of
// one together.
bool tell_members(ls_group& g) {
    for (const ls_group* other : g.context->groups) {
        if (other != &g && other->told > 0 && other->told < other->size) return false;
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
        if (io == Io::kAgain) return now_ns() > g.deadline_ns ? (g.ok = false, true) : false;
        if (io == Io::kClosed) return g.ok = false, true;
        g.told += piece.count;
    }
    return true;
}

bool turn_joining(ls_group& g) {
    if (!g.ok || !tell_members(g)) return !g.ok;
    if (!g.ok) return true;
    hear_supervisor(*g.context);
    if (!g.answered) {
        if (!g.context->control || now_ns() > g.deadline_ns) g.ok = false;
        return !g.ok;
    }
    g.ok = g.joined;
    return true;
}

int fail(ls_group& g) {
    g.state = ls_group::State::kFailed;
    return LS_ERR_UNAVAILABLE;
}

int step(ls_group& g) {
    using State = ls_group::State;
    switch (g.state) {
        case State::kPlacing:
            g.ok = place_members(g);
            g.state = State::kJoining;
            g.deadline_ns = now_ns() + g.context->options.limit_s * 1'000'000'000ull;
            return LS_IN_PROGRESS;
        case State::kJoining: {
            if (!turn_joining(g)) return LS_IN_PROGRESS;
            g.state = State::kAgreeing;
            const uint32_t ok = g.ok;
            return exchange(g, ok) == LS_OK ? LS_IN_PROGRESS : fail(g);
        }
        case State::kJoined:
        case State::kAgreeing:
            for (uint32_t r = 0; r < g.size; ++r) {
                if (!member_sent<uint32_t>(g, r)) return fail(g);
            }
            g.state = State::kReady;
            g.out = {};
            g.in = {};
            g.members = {};
            return LS_OK;
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
    if (group->joined && c.control) {
        GroupLeaveRequest request;
        request.id = group->id;
        send_packet(c.control, &request, sizeof request);
    }
    std::erase(c.groups, group);
    delete group;
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
    const GroupIdentity mine{uint64_t{c_.rank} << 40 | c_.next_group++, c_.rank, 1};
    if (exchange(*g, mine) != LS_OK) return LS_ERR_UNAVAILABLE;
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
