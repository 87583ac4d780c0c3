#include "dpu/rank/far_role.h"

#include <string.h>

#include <algorithm>
#include <utility>

namespace longshore {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kStatsLimitNs = 2 * kSecondNs;

// A stand-in that is asked for nothing by others answers soon.
bool is_overdue(const FarExchange& steps, uint32_t limit_s) {
    const uint64_t since = steps.waits_since_ns();
    return since != 0 && awake_ns() - since > 6 * limit_s * kSecondNs;
}

}  // namespace

// --- what goes over the connection

void FarRole::turn() {
    SessionKind kind{};
    std::span<const std::byte> body;
    SessionStream& stream = connection_.stream();
    stream.flush();
    while (stream.receive(&kind, &body)) {
        if (!hear(kind, body)) lose(connection_.on_dpu("does not keep to the protocol"));
    }
    operations_.post_waiting();
    if (!stream.open() && arrival_.is_connected() && !connection_.is_lost())
        lose(connection_.on_dpu(welcomed_ ? "has closed the connection"
                                          : "has closed the connection unanswered"));
}

void FarRole::lose(const std::string& why) {
    connection_.lose(why);
    if (arrival_.in_session()) return arrival_.steps().fail(why);
    groups_.fail(why);
    operations_.fail();
}

bool FarRole::hear_ready(const SessionReady& ready) {
    if (ready.id == 0) {
        arrival_.steps().want(ready);
        c_.node = ready.node;
        c_.node_count = ready.nodes;
        c_.local = ready.leader ? 0 : 1;
        c_.aliases = ready.aliases;
        c_.surroundings = {ls_surroundings::LS_JOINED_BY_UCX, ready.spare_cores, 0};
    } else if (FarGroup* const group = groups_.find(ready.id)) {
        group->steps.want(ready);
        group->nodes = ready.nodes;
        group->ranks_per_node = ready.ranks_per_node;
        group->several_nodes = ready.nodes > 1;
    }
    return true;
}

// False: no stand-in says this.
bool FarRole::hear(SessionKind kind, std::span<const std::byte> body) {
    switch (kind) {
        case SessionKind::kWelcome: {
            SessionWelcome welcome;
            const bool ok = !std::exchange(welcomed_, true) && decode(body, &welcome);
            if (ok && !welcome.ok) lose(connection_.on_dpu("refuses this job: " + welcome.reason));
            return ok;
        }
        case SessionKind::kExchange: {
            SessionExchange exchange;
            if (!decode(body, &exchange)) return false;
            FarGroup* const group = groups_.find(exchange.id);
            if (exchange.id == 0) arrival_.steps().want(std::move(exchange));
            if (group != nullptr) group->steps.want(std::move(exchange));
            return true;
        }
        case SessionKind::kReady: {
            SessionReady ready;
            return decode(body, &ready) && hear_ready(ready);
        }
        case SessionKind::kFinished: {
            SessionDone done;
            return decode(body, &done) && operations_.take(done);
        }
        case SessionKind::kCopy: {
            HandedCopy copy;
            return decode(body, &copy) && operations_.take(copy);
        }
        case SessionKind::kLeft: {
            SessionAttend answer;
            return decode(body, &answer) && !answer.on && operations_.left(answer);
        }
        case SessionKind::kLine: {
            SessionLine line;
            if (!decode(body, &line)) return false;
            log_line(c_, line.level, line.text.c_str());
            return true;
        }
        case SessionKind::kStats:
            if (body.size() % sizeof(ls_service_stats) != 0) return false;
            stats_.resize(body.size() / sizeof(ls_service_stats));
            if (!stats_.empty()) memcpy(stats_.data(), body.data(), body.size());
            stats_there_ = true;
            return true;
        default:
            return false;
    }
}

// --- the job and its groups

int FarRole::test_job() {
    if (arrival_.in_session()) {
        turn();
        if (!connection_.is_lost() && is_overdue(arrival_.steps(), c_.options.limit_s))
            lose(connection_.on_dpu("did not answer in time"));
    }
    const int rc = arrival_.test();
    if (rc == LS_OK && arrival_.copies()) operations_.allow_copies();
    return rc;
}

// This ends the stand-in. Only closing would not, where a forked child still has the connection; that child's
// is a copy, and only the copy is closed.
bool FarRole::leave_job(bool is_forked) {
    if (is_forked) return true;
    if (operations_.idle()) agent_.leave();
    connection_.stream().flush();
    connection_.stream().end();
    return true;
}

int FarRole::start_group(const ls_exchange& exchange, ls_group** out) {
    return arrival_.is_over() ? groups_.start(exchange, out) : LS_ERR_UNAVAILABLE;
}

int FarRole::test_group(ls_group& base) {
    auto& group = static_cast<FarGroup&>(base);
    turn();
    if (!connection_.is_lost() && is_overdue(group.steps, c_.options.limit_s))
        lose(connection_.on_dpu("did not answer in time"));
    return groups_.test(group);
}

// --- operations

int FarRole::start_operation(ls_group& group, const ls_arguments& arguments, ls_operation** out) {
    if (!are_sound(arguments, group.size)) return LS_ERR_ARGUMENT;
    return operations_.start(static_cast<FarGroup&>(group), arguments, out);
}

int FarRole::test_operation(ls_operation& operation, int* moved) {
    if (operation.result != LS_IN_PROGRESS) return operation.result;
    if (waits_ != 0) {
        operations_.attend();
    } else {
        operations_.note_look(static_cast<FarOperation&>(operation));
    }
    turn();
    const bool copied = operations_.copy_next();
    if (copied && moved != nullptr) *moved = 1;
    return operation.result;
}

// A rank that goes on has nothing left to copy: others wait for what it would have.
void FarRole::end_wait() {
    if (waits_ == 0 || --waits_ != 0 || operations_.leave()) return;
    SessionStream& stream = connection_.stream();
    const uint64_t begin = awake_ns();
    while (stream.open() && (operations_.is_leaving() || !stream.flushed())) {
        turn();
        while (operations_.copy_next()) {
        }
        if (!operations_.is_leaving() && stream.flushed()) return;
        connection_.sleep(kSecondNs / 1000);
        if (awake_ns() - begin > 6 * c_.options.limit_s * kSecondNs)
            lose(connection_.on_dpu("did not answer in time"));
    }
}

void FarRole::free_operation(ls_operation* operation) {
    ls_group* const group = operation->group;
    operations_.free(static_cast<FarOperation*>(operation));
    --group->open;
    if (group->dying) free_group(group);
}

void FarRole::describe(const ls_operation& operation, char* line, size_t bytes) {
    operations_.describe(static_cast<const FarOperation&>(operation), line, bytes);
}

// --- sight

// Asked for where it is wanted, once the job is done with its operations; so this waits, but not for long.
uint32_t FarRole::services(ls_service_stats* out, uint32_t max) {
    SessionStream& stream = connection_.stream();
    stats_there_ = false;
    stream.send(SessionKind::kAskStats, std::span<const std::byte>{});
    for (const uint64_t end = now_ns() + kStatsLimitNs; !stats_there_ && stream.open() && now_ns() < end;) {
        connection_.sleep(kSecondNs / 100);
        turn();
    }
    if (!stats_there_) return 0;
    std::copy_n(stats_.begin(), std::min<size_t>(stats_.size(), max), out);
    return static_cast<uint32_t>(stats_.size());
}

void FarRole::rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const {
    for (uint32_t i = 0; i < LS_COLLECTIVE_COUNT; ++i)
        out[i] = {operations_.bytes_moved(i) + operations_.bytes_by_agent(i), operations_.bytes_copied(i), 0};
}

ls_moved_bytes FarRole::copied_on_host() const {
    ls_moved_bytes all{};
    for (uint32_t i = 0; i < LS_COLLECTIVE_COUNT; ++i) all.by_agent += operations_.bytes_by_agent(i);
    all.blocks_by_rank = operations_.blocks_by_rank();
    all.blocks_by_agent = operations_.blocks_by_agent();
    return all;
}

namespace {

// Whoever is linked with this file has the role.
[[maybe_unused]] const bool added = [] {
    dpu_roles.rank = [](ls_context& context) -> std::unique_ptr<Role> {
        return std::make_unique<FarRole>(context);
    };
    dpu_roles.layout = kSessionVersion;
    return true;
}();

}  // namespace

}  // namespace longshore
