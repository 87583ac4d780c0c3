#include "dpu/rank/far_groups.h"

#include <algorithm>

namespace longshore {

FarGroups::~FarGroups() {
    for (ls_group* group : c_.groups) delete static_cast<FarGroup*>(group);
    c_.groups.clear();
}

int FarGroups::start(const ls_exchange& exchange, ls_group** out) {
    auto group = std::make_unique<FarGroup>();
    group->context = &c_;
    group->rank = exchange.rank;
    group->size = exchange.size;
    group->far_id = ++last_id_;
    group->steps = FarExchange(group->far_id, exchange);
    if (connection_.is_lost()) {
        group->steps.fail(connection_.why_lost());
    } else if (c_.groups.size() >= kFarGroupsMax) {
        group->steps.fail("as many groups are open as a DPU makes for a rank");
    } else {
        connection_.stream().send(SessionKind::kGroupStart,
                                  SessionGroup{group->far_id, group->rank, group->size});
    }
    c_.groups.push_back(group.get());
    *out = group.release();
    return LS_OK;
}

int FarGroups::test(FarGroup& group) {
    const int rc = group.steps.test(&connection_.stream());
    if (rc == LS_OK) group.state = ls_group::State::kReady;
    if (rc != LS_OK && rc != LS_IN_PROGRESS) group.state = ls_group::State::kFailed;
    return rc;
}

void FarGroups::free(FarGroup* group) {
    group->dying = true;
    if (group->open != 0) return;
    connection_.stream().send(SessionKind::kGroupFree, SessionGroup{group->far_id, group->rank, group->size});
    std::erase(c_.groups, group);
    delete group;
}

FarGroup* FarGroups::find(uint64_t far_id) {
    for (ls_group* group : c_.groups) {
        auto* const far = static_cast<FarGroup*>(group);
        if (far->far_id == far_id) return far;
    }
    return nullptr;
}

void FarGroups::fail(const std::string& why) {
    for (ls_group* group : c_.groups) static_cast<FarGroup*>(group)->steps.fail(why);
}

}  // namespace longshore
