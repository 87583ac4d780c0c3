// The host library as a stand-in on a DPU (dpu/card/stand_in.cc) sees it, played: nothing moves, and of each
// operation that reaches it all bytes must lie in regions that the rank has opened. Included once by a
// program that has no other host library.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "conversation.h"
#include "dpu/card/stand_in_post.h"
#include "engine/collective.h"

namespace longshore::fuzz {

constexpr size_t kExchangedBytes = 24;  // of each rank, in every exchange that is played here

struct Exchange {
    std::vector<std::byte> in, out;
    ls_exchange api{};
    bool start(const ls_exchange& exchange) {
        api = exchange;
        in.resize(kExchangedBytes);
        out.resize(kExchangedBytes * exchange.size);
        return api.start(api.user, in.data(), out.data(), kExchangedBytes) == LS_OK;
    }
    int test() const { return api.test(api.user); }
};
struct Group {
    Exchange exchange;
    bool ready = false;
};
struct Operation {
    int tests = 0;
    uint32_t copies = 0;  // that its rank is still to be handed
};

// Of one session. What the stand-in has of the host library's are addresses that only this file looks behind.
struct Host {
    std::function<void()> go_on, leave;  // the rank, when the stand-in has nothing to do, or cannot serve it
    std::function<bool()> group_fails = [] { return false; };
    std::function<int()> tests_of_an_operation = [] { return 0; };
    std::function<uint32_t()> copies_of_an_operation = [] { return 0; };
    Exchange exchange;
    bool ready = false;
    std::set<Group*> groups;
    std::set<Operation*> operations;
    std::map<uint32_t, uint64_t> regions;
    bool posted = false;
    std::set<uint64_t> copies_out;  // claimed for the rank, by the place of their claims
    uint64_t copies_made = 0;
    alignas(ls_context) std::byte context[sizeof(ls_context)] = {};
};
inline Host* host = nullptr;

inline Group* group_of(ls_group* group) {
    auto* const own = reinterpret_cast<Group*>(group);
    require(host->groups.contains(own));
    return own;
}
inline Operation* operation_of(const ls_operation* operation) {
    auto* const own = reinterpret_cast<Operation*>(const_cast<ls_operation*>(operation));
    require(host->operations.contains(own));
    return own;
}

// Every byte that the engine may move of this side.
inline void require_inside(const MemoryRef& at, uint64_t carried, uint64_t bytes, uint64_t block_bytes,
                           uint32_t blocks, const std::vector<BlockSpan>& spans) {
    if (at.region.value == kFarRegionsMax) return;  // which nobody can open: the operation ends in an error
    uint64_t room = carried;
    if (at.region.value != 0) {
        require(host->regions.contains(at.region.value) || (at.offset == 0 && bytes == 0));
        room = host->regions[at.region.value];
    }
    require(at.offset <= room && bytes <= room - at.offset);
    for (const BlockSpan& span : spans) {
        if (span.bytes == 0) continue;
        require(span.offset <= room - at.offset && span.bytes <= room - at.offset - span.offset);
    }
    if (spans.empty() && blocks != 0 && block_bytes != 0) require(block_bytes <= (room - at.offset) / blocks);
}

}  // namespace longshore::fuzz

using namespace longshore;
using longshore::fuzz::group_of;
using longshore::fuzz::host;
using longshore::fuzz::operation_of;
using longshore::fuzz::require;

int ls_context_start(const ls_options* options, const ls_exchange* exchange, ls_context** out) {
    require(options->staging_bytes <= uint64_t{1} << 30 && options->memory_mode <= LS_MEMORY_STAGING);
    *out = reinterpret_cast<ls_context*>(host->context);
    return host->exchange.start(*exchange) ? LS_OK : LS_ERR_UNAVAILABLE;
}
int ls_context_test(ls_context*) {
    const int rc = host->exchange.test();
    host->ready = rc == LS_OK;
    if (rc == LS_IN_PROGRESS) host->go_on();
    if (rc < 0) host->leave();  // it hears that it cannot be served
    return rc;
}
const char* ls_context_error(const ls_context*) {
    return "it cannot be had";
}
const char* ls_memory_reach(const ls_context*) {
    return "dpu";
}
void ls_look_around(const ls_context*, ls_surroundings* out) {
    *out = {};
}
void ls_context_free(ls_context*) {
    require(host->operations.empty());
}
int ls_group_start(ls_context*, const ls_exchange* exchange, ls_group** out) {
    require(host->ready);
    *out = nullptr;
    if (host->group_fails()) return LS_ERR_UNAVAILABLE;
    auto* const group = new fuzz::Group;
    if (!group->exchange.start(*exchange)) abort();
    host->groups.insert(group);
    *out = reinterpret_cast<ls_group*>(group);
    return LS_OK;
}
int ls_group_test(ls_group* group) {
    fuzz::Group* const own = group_of(group);
    const int rc = own->exchange.test();
    own->ready = rc == LS_OK;
    return rc;
}
void ls_group_free(ls_group* group) {
    if (group == nullptr) return;
    fuzz::Group* const own = group_of(group);
    host->groups.erase(own);
    delete own;
}
void ls_group_shape(const ls_group* group, uint32_t* nodes, uint32_t* ranks_per_node) {
    require(group_of(const_cast<ls_group*>(group))->ready);
    *nodes = *ranks_per_node = 1;
}
int ls_operation_test(ls_operation* operation, int*) {
    return operation_of(operation)->tests-- > 0 ? LS_IN_PROGRESS : LS_OK;
}
uint32_t ls_waiting(const ls_context*) {
    return 0;
}
void ls_advance(ls_context*) {
    abort();
}
void ls_operation_free(ls_operation* operation) {
    fuzz::Operation* const own = operation_of(operation);
    host->operations.erase(own);
    delete own;
}
void ls_operation_describe(const ls_operation* operation, char* line, size_t bytes) {
    operation_of(operation);
    memset(line, 'd', bytes - 1);
    line[bytes - 1] = 0;
}
uint32_t ls_services(const ls_context*, ls_service_stats*, uint32_t) {
    return 2;
}
void ls_rank_bytes(const ls_context*, ls_collective_bytes out[LS_COLLECTIVE_COUNT]) {
    memset(out, 0, sizeof *out * LS_COLLECTIVE_COUNT);
}
int ls_is_node_leader(const ls_context*) {
    return 1;
}
uint32_t ls_node(const ls_context*) {
    return 0;
}
uint32_t ls_node_count(const ls_context*) {
    return 1;
}
void ls_wake(ls_context*) {}
void ls_sleep(ls_context*, uint64_t) {
    host->go_on();
}

namespace longshore {

bool publish_region_of_rank(ls_context&, RegionId region, HostRegion description) {
    require(host->ready && region.value < kFarRegionsMax);
    if (region == kArenaRegion || description.key.size() > kHostKeyBytesMax ||
        description.exported.size() > kExportedBytesMax)
        return false;
    require(description.bytes <= UINT64_MAX - description.address);
    host->regions[region.value] = description.bytes;
    return true;
}

int start_for_rank(ls_group* group, const OperationArguments& a, Plan plan, std::vector<std::byte> data,
                   ls_operation** out) {
    *out = nullptr;
    fuzz::Group* const own = group_of(group);
    if (!own->ready) return LS_ERR_UNAVAILABLE;
    const uint32_t size = own->exchange.api.size;
    const Rank rank{own->exchange.api.rank};
    require(static_cast<uint8_t>(a.collective) < kCollectives && a.root.value < size);
    const CollectiveRules& rules = rules_of(a.collective);
    const auto blocks = [&](bool there, Blocks kind) { return !there ? 0 : kind == Blocks::kOne ? 1 : size; };
    const auto spans_fit = [&](bool there, Blocks kind, const std::vector<BlockSpan>& spans) {
        return spans.size() == (there && rules.by_vector && kind == Blocks::kPerRank ? size : 0);
    };
    const bool gives = rules.gives(rank, a.root), takes = rules.takes(rank, a.root);
    require(!a.self_in_place || (gives && takes));
    require(spans_fit(gives, rules.given, plan.send_blocks) &&
            spans_fit(takes, rules.taken, plan.recv_blocks));
    fuzz::require_inside(a.send, data.size(), plan.send_bytes, a.send_block_bytes, blocks(gives, rules.given),
                         plan.send_blocks);
    fuzz::require_inside(a.recv, 0, plan.recv_bytes, a.recv_block_bytes, blocks(takes, rules.taken),
                         plan.recv_blocks);
    host->posted = true;
    auto* const operation = new fuzz::Operation{host->tests_of_an_operation(), 0};
    if (a.hands_over) operation->copies = host->copies_of_an_operation();
    host->operations.insert(operation);
    *out = reinterpret_cast<ls_operation*>(operation);
    return LS_OK;
}

bool may_be_over(const ls_operation* operation) {
    operation_of(operation);
    return true;
}

bool claim_for_rank(ls_operation* operation, RankCopy* out) {
    fuzz::Operation* const own = operation_of(operation);
    if (own->copies == 0) return false;
    --own->copies;
    out->copy = {};
    out->copy.bytes = 1;
    out->copy.claim_offset = ++host->copies_made;
    host->copies_out.insert(out->copy.claim_offset);
    require(host->copies_out.size() <= kHandedMax);
    return true;
}
void finish_for_rank(ls_context&, const Copy& copy, bool) {
    require(host->copies_out.erase(copy.claim_offset) == 1);
}
bool is_all_there(ls_operation* operation) {
    return operation_of(operation)->copies % 2 != 0;
}
void leave_to_services(ls_operation* operation, bool) {
    operation_of(operation);
}

void leave_node(const ls_context&) {}

}  // namespace longshore
