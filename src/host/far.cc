// How a rank comes to its DPU: the ranks of a machine find their first, which starts the agent; all connect,
// and make the exchanges that their stand-ins ask for. And what goes over the connection.
#include "host/far.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>

#include <algorithm>

#include "host/job_exchange.h"

namespace longshore {

// What all ranks tell each other first; of rank 0: what the job is known by.
struct Far::Identity {
    uint64_t machine, job;
    Token token;
};
// Of a machine's first rank: where its agent is.
struct Far::AgentPlace {
    uint32_t ok;
    SocketName name;
    Token token;
    char reason[kReasonBytes];
};

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kStatsLimitNs = 2 * kSecondNs;

std::string on_dpu(const ls_context& c, const std::string& what) {
    return "the DPU at " + std::string(c.options.dpu) + " " + what;
}

}  // namespace

Far::~Far() {
    for (ls_group* group : c_.groups) delete static_cast<FarGroup*>(group);
    c_.groups.clear();
}

int Far::start() {
    Identity mine{};
    machine_ = mine.machine = machine_identity(c_.options);
    if (getrandom(&mine.job, sizeof mine.job, 0) != sizeof mine.job ||
        getrandom(mine.token.data(), mine.token.size(), 0) != static_cast<ssize_t>(mine.token.size()))
        return LS_ERR_UNAVAILABLE;
    return start_exchange(c_, mine);
}

int Far::fail(const std::string& reason) {
    state_ = State::kFailed;
    c_.error = reason;
    stream_.end();
    return LS_ERR_UNAVAILABLE;
}

void Far::place_ranks() {
    job_ = received<Identity>(c_, 0).job;
    token_ = received<Identity>(c_, 0).token;
    uint32_t first = 0;
    while (received<Identity>(c_, first).machine != machine_) ++first;
    leads_ = first == c_.rank;
    machine_first_ = first;
}

// Only what can be told at once; that the DPU does not answer is told with the first exchange.
int Far::connect() {
    for (uint32_t r = 0; r < c_.size; ++r) {
        auto place = received<AgentPlace>(c_, r);
        place.reason[sizeof place.reason - 1] = 0;
        if (!place.ok) return fail(place.reason);
    }
    const auto agent = received<AgentPlace>(c_, machine_first_);
    state_ = State::kConnecting;
    deadline_ns_ = now_ns() + c_.options.limit_s * kSecondNs;
    steps_ = FarExchange(0, c_.exchange);
    std::string error;
    const char* reason = "";
    if (!agent_.connect(agent.name, agent.token, c_.options.shared.file, c_.options.limit_s, &error)) {
        steps_.fail(error);
    } else if (connecting_ = start_connecting(c_.options.dpu, &reason); !connecting_) {
        steps_.fail(on_dpu(c_, std::string("cannot be reached: ") + reason));
    } else {
        return LS_IN_PROGRESS;
    }
    state_ = State::kSession;
    return LS_IN_PROGRESS;
}

void Far::say_hello() {
    const ls_options& o = c_.options;
    SessionHello hello;
    hello.job = job_;
    hello.token = token_;
    hello.host = machine_;
    hello.rank = c_.rank;
    hello.size = c_.size;
    hello.service_count = o.service_count;
    hello.service_reads_max = o.service_reads_max;
    hello.service_spin_us = o.service_spin_us;
    hello.service_restarts_max = o.service_restarts_max;
    hello.limit_s = o.limit_s;
    hello.eager_bytes = o.eager_bytes;
    hello.chunk_bytes = o.chunk_bytes;
    hello.staging_bytes = o.staging_bytes;
    hello.cores = c_.service_cores;
    hello.memory_mode = static_cast<uint8_t>(o.memory_mode);
    if (leads_) {
        hello.agent = agent_address_;
        const auto probe = probe_.get();
        hello.probe.assign(probe.begin(), probe.end());
        hello.no_probe = no_probe_;
    }
    stream_.send(SessionKind::kHello, hello);
}

int Far::step() {
    switch (state_) {
        case State::kIdentity: {
            place_ranks();
            if (c_.options.dpu_problem != nullptr) {
                c_.problem = c_.options.dpu_problem;
            } else if (c_.options.shared.identity == 0 || c_.options.shared.allocate == nullptr) {
                c_.problem = "ranks on a DPU need shared memory (LONGSHORE_MEMORY_ALIAS=allocate)";
            } else if (leads_) {
                c_.starter.start_agent(c_.service_path.c_str(), c_.options.limit_s,
                                       c_.options.memory_mode != LS_MEMORY_STAGING, &c_.problem);
            }
            state_ = State::kAgent;
            return LS_IN_PROGRESS;
        }
        case State::kAgent: {
            AgentPlace mine{};
            ServiceReady agent;
            if (leads_ && c_.problem.empty() &&
                c_.starter.test(&agent, &agent_address_, &c_.problem) == ServiceStarter::State::kPending)
                return LS_IN_PROGRESS;
            mine.name = agent.name;
            mine.token = agent.token;
            probe_ = agent.probe;
            no_probe_ = agent.reason;
            mine.ok = c_.problem.empty();
            c_.problem.copy(mine.reason, sizeof mine.reason - 1);
            state_ = State::kAgents;
            return start_exchange(c_, mine) == LS_OK ? LS_IN_PROGRESS
                                                     : fail("the exchange between ranks failed");
        }
        case State::kAgents:
            return connect();
        case State::kConnecting: {
            const int connected = connect_result(connecting_);
            if (connected == 0 && now_ns() < deadline_ns_) return LS_IN_PROGRESS;
            state_ = State::kSession;
            if (connected > 0) {
                stream_ = SessionStream(std::move(connecting_), c_.options.limit_s);
                say_hello();
            } else {
                steps_.fail(on_dpu(c_, std::string("cannot be reached: ") +
                                           (connected == 0 ? "it does not answer" : strerror(-connected))));
            }
            return LS_IN_PROGRESS;
        }
        case State::kSession: {
            turn();
            look_at_patience(steps_);
            const int rc = steps_.test(&stream_);
            if (rc == LS_OK) {
                state_ = State::kReady;
                // What is open to the network stays where it is.
                if (c_.options.shared.keep != nullptr) c_.options.shared.keep();
                c_.in = c_.out = std::vector<std::byte>();
            }
            return rc == LS_OK || rc == LS_IN_PROGRESS ? rc : fail(steps_.reason());
        }
        case State::kReady:
            return LS_OK;
        case State::kFailed:
            break;
    }
    return LS_ERR_UNAVAILABLE;
}

int Far::test() {
    if (state_ == State::kIdentity || state_ == State::kAgents) {
        const int rc = c_.exchange.test(c_.exchange.user);
        if (rc == LS_IN_PROGRESS) return rc;
        if (rc != LS_OK) return fail("the exchange between ranks failed");
    }
    return step();
}

// A stand-in that is asked for nothing by others answers soon.
void Far::look_at_patience(const FarExchange& steps) {
    const uint64_t since = steps.waits_since_ns();
    if (since != 0 && !lost_ && now_ns() - since > 6 * c_.options.limit_s * kSecondNs)
        lose(on_dpu(c_, "did not answer in time"));
}

// --- what goes over the connection

void Far::turn() {
    SessionKind kind{};
    std::span<const std::byte> body;
    stream_.flush();
    while (stream_.receive(&kind, &body)) hear(kind, body);
    if (!stream_.open() && state_ >= State::kSession && !lost_)
        lose(on_dpu(c_, welcomed_ ? "has closed the connection" : "has closed the connection unanswered"));
}

void Far::lose(const std::string& why) {
    lost_ = true;
    stream_.end();
    if (state_ == State::kSession) return steps_.fail(why);
    for (ls_group* group : c_.groups) static_cast<FarGroup*>(group)->steps.fail(why);
    why_lost_ = why;
    for (const auto& op : operations_) {
        if (op->state != ls_operation::State::kPosted) continue;
        say_lost();
        finish(*op, LS_ERR_SERVICE);
    }
}

// Once, and only where something fails for it: a job may be over before its DPU is.
void Far::say_lost() {
    if (!std::exchange(said_lost_, true))
        log_line(c_, 0, ("a collective cannot be finished: " + why_lost_).c_str());
}

FarExchange* Far::steps_of(uint32_t id) {
    if (id == 0) return &steps_;
    for (ls_group* group : c_.groups) {
        auto* far = static_cast<FarGroup*>(group);
        if (far->far_id == id) return &far->steps;
    }
    return nullptr;
}

void Far::hear_ready(const SessionReady& ready) {
    FarExchange* steps = steps_of(ready.id);
    if (steps == nullptr) return;
    steps->want(ready);
    if (ready.id == 0) {
        c_.node = ready.node;
        c_.node_count = ready.nodes;
        c_.local = ready.leader ? 0 : 1;
        c_.aliases = ready.aliases;
        c_.surroundings = {ls_surroundings::LS_JOINED_BY_UCX, ready.spare_cores, 0};
        return;
    }
    for (ls_group* group : c_.groups) {
        if (static_cast<FarGroup*>(group)->far_id != ready.id) continue;
        group->nodes = ready.nodes;
        group->ranks_per_node = ready.ranks_per_node;
        group->several_nodes = ready.nodes > 1;
    }
}

void Far::hear(SessionKind kind, std::span<const std::byte> body) {
    bool ok = true;
    switch (kind) {
        case SessionKind::kWelcome: {
            SessionWelcome welcome;
            ok = !welcomed_ && decode(body, &welcome);
            welcomed_ = true;
            if (ok && !welcome.ok) lose(on_dpu(c_, "refuses this job: " + welcome.reason));
            break;
        }
        case SessionKind::kExchange: {
            SessionExchange exchange;
            ok = decode(body, &exchange);
            if (FarExchange* steps = ok ? steps_of(exchange.id) : nullptr) steps->want(std::move(exchange));
            break;
        }
        case SessionKind::kReady: {
            SessionReady ready;
            ok = decode(body, &ready);
            if (ok) hear_ready(ready);
            break;
        }
        case SessionKind::kFinished: {
            SessionDone done;
            ok = decode(body, &done) && done.operation < operations_.size() &&
                 operations_[done.operation]->state == ls_operation::State::kPosted && done.result <= 0;
            if (!ok) break;
            FarOperation& op = *operations_[done.operation];
            bytes_moved_[static_cast<uint8_t>(op.arguments.collective)] = done.bytes_moved;
            finish(op, done.result);
            break;
        }
        case SessionKind::kLine: {
            SessionLine line;
            ok = decode(body, &line);
            if (ok) log_line(c_, line.level, line.text.c_str());
            break;
        }
        case SessionKind::kStats:
            ok = body.size() % sizeof(ls_service_stats) == 0;
            stats_.resize(body.size() / sizeof(ls_service_stats));
            if (!stats_.empty()) memcpy(stats_.data(), body.data(), body.size());
            stats_there_ = true;
            break;
        default:
            ok = false;
    }
    if (!ok) lose(on_dpu(c_, "does not keep to the protocol"));
}

void Far::sleep(uint64_t timeout_ns) {
    if (!stream_.open()) return;
    pollfd ready{stream_.fd(), static_cast<short>(stream_.flushed() ? POLLIN : POLLIN | POLLOUT), 0};
    const timespec timeout{static_cast<time_t>(timeout_ns / kSecondNs),
                           static_cast<long>(timeout_ns % kSecondNs)};
    ppoll(&ready, 1, &timeout, nullptr);
}

// Asked for where it is wanted, once the job is done with its operations; so this waits, but not for long.
uint32_t Far::services(ls_service_stats* out, uint32_t max) {
    stats_there_ = false;
    stream_.send(SessionKind::kAskStats, std::span<const std::byte>{});
    for (const uint64_t end = now_ns() + kStatsLimitNs; !stats_there_ && stream_.open() && now_ns() < end;) {
        sleep(kSecondNs / 100);
        turn();
    }
    if (!stats_there_) return 0;
    std::copy_n(stats_.begin(), std::min<size_t>(stats_.size(), max), out);
    return static_cast<uint32_t>(stats_.size());
}

void Far::rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const {
    for (int i = 0; i < LS_COLLECTIVE_COUNT; ++i) out[i] = {bytes_moved_[i], 0, 0};
}

void Far::leave() {
    stream_.flush();
    stream_.end();
}

// --- groups

int Far::start_group(const ls_exchange& exchange, ls_group** out) {
    if (state_ != State::kReady) return LS_ERR_UNAVAILABLE;
    auto group = std::make_unique<FarGroup>();
    group->context = &c_;
    group->rank = exchange.rank;
    group->size = exchange.size;
    group->far_id = ++next_group_;
    group->steps = FarExchange(group->far_id, exchange);
    if (lost_) group->steps.fail(why_lost_);
    c_.groups.push_back(group.get());
    stream_.send(SessionKind::kGroupStart, SessionGroup{group->far_id, group->rank, group->size});
    *out = group.release();
    return LS_OK;
}

int Far::test_group(ls_group& base) {
    auto& group = static_cast<FarGroup&>(base);
    turn();
    look_at_patience(group.steps);
    const int rc = group.steps.test(&stream_);
    if (rc == LS_OK) group.state = ls_group::State::kReady;
    if (rc != LS_OK && rc != LS_IN_PROGRESS) group.state = ls_group::State::kFailed;
    return rc;
}

void Far::free_group(ls_group* base) {
    auto* group = static_cast<FarGroup*>(base);
    if (!std::exchange(group->dying, true))
        stream_.send(SessionKind::kGroupFree, SessionGroup{group->far_id, group->rank, group->size});
    if (group->open != 0) return;
    std::erase(c_.groups, base);
    delete group;
}

}  // namespace longshore
