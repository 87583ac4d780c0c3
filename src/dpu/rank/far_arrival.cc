#include "dpu/rank/far_arrival.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <algorithm>

#include "host/job_exchange.h"

namespace longshore {

// What all ranks tell each other first; of rank 0: what the job is known by.
struct FarArrival::Identity {
    uint64_t machine, job;
    Token token;
    FarNeighbours::Identity memory;
};
// Of a machine's first rank: where its agent is.
struct FarArrival::AgentPlace {
    uint32_t ok;
    SocketName name;
    Token token;
    char reason[kReasonBytes];
};

namespace {
constexpr char kExchangeFailed[] = "the exchange between ranks failed";

AgentCopying agent_copying(const ls_options& options) {
    switch (options.agent_copies) {
        case ls_options::LS_AGENT_COPIES_NEVER:
            return AgentCopying::kNever;
        case ls_options::LS_AGENT_COPIES_ALWAYS:
            return AgentCopying::kAlways;
        case ls_options::LS_AGENT_COPIES_AUTO:
            break;
    }
    return AgentCopying::kWhereACoreIsSpare;
}
}  // namespace

int FarArrival::start() {
    if (!c_.alive) return LS_ERR_UNAVAILABLE;
    Identity mine{};
    let_others_read(c_);
    mine.memory = neighbours_.identity(c_);
    machine_ = mine.machine = machine_identity(c_.options);
    if (getrandom(&mine.job, sizeof mine.job, 0) != sizeof mine.job ||
        getrandom(mine.token.data(), mine.token.size(), 0) != static_cast<ssize_t>(mine.token.size()))
        return LS_ERR_UNAVAILABLE;
    return start_exchange(c_, mine);
}

int FarArrival::fail(const std::string& reason) {
    state_ = State::kFailed;
    c_.error = reason;
    connection_.stream().end();
    return LS_ERR_UNAVAILABLE;
}

void FarArrival::place_ranks() {
    job_ = received<Identity>(c_, 0).job;
    token_ = received<Identity>(c_, 0).token;
    machine_first_ = c_.size;
    for (uint32_t r = 0; r < c_.size; ++r) {
        const auto identity = received<Identity>(c_, r);
        if (identity.machine != machine_) continue;
        machine_first_ = std::min(machine_first_, r);
        if (r == c_.rank) machine_rank_ = machine_ranks_;
        ++machine_ranks_;
        neighbours_.add(r, identity.memory);
    }
    leads_ = machine_first_ == c_.rank;
    copies_ = c_.options.wait_cooperative != 0 && neighbours_.probe();
}

// What ranks on a DPU need, and on the machine's first rank the agent.
void FarArrival::start_agent() {
    if (c_.options.dpu_problem != nullptr) {
        c_.problem = c_.options.dpu_problem;
    } else if (c_.options.shared.identity == 0 || c_.options.shared.allocate == nullptr) {
        c_.problem = "ranks on a DPU need shared memory (LONGSHORE_MEMORY_ALIAS=allocate)";
    } else if (leads_) {
        AgentParameters parameters;
        parameters.limit_s = c_.options.limit_s;
        parameters.exports = c_.options.memory_mode != LS_MEMORY_STAGING;
        snprintf(parameters.dpu, sizeof parameters.dpu, "%s", c_.options.dpu);
        parameters.job = job_;
        parameters.job_token = token_;
        parameters.rank_count = machine_ranks_;
        parameters.restarts_max = c_.options.service_restarts_max;
        parameters.tls = c_.options.network_tls != 0;
        parameters.copying = agent_copying(c_.options);
        c_.starter.start(c_.service_path.c_str(), "agent", parameters, parameters.limit_s, &c_.problem);
    }
}

// Once the agent is there, or cannot be, all ranks tell each other.
int FarArrival::share_agent() {
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
    return start_exchange(c_, mine) == LS_OK ? LS_IN_PROGRESS : fail(kExchangeFailed);
}

// Only what can be told at once; that the DPU does not answer is told with the first exchange.
int FarArrival::connect() {
    for (uint32_t r = 0; r < c_.size; ++r) {
        auto place = received<AgentPlace>(c_, r);
        place.reason[sizeof place.reason - 1] = 0;
        if (!place.ok) return fail(place.reason);
    }
    const auto agent = received<AgentPlace>(c_, machine_first_);
    agent_name_ = agent.name;
    agent_token_ = agent.token;
    state_ = State::kConnecting;
    deadline_ns_ = awake_ns() + c_.options.limit_s * 1'000'000'000ull;
    steps_ = FarExchange(0, c_.exchange);
    std::string error;
    const char* reason = "";
    if (!agent_.connect(agent.name, agent.token, c_.options.shared.file, c_.options.limit_s, &error)) {
        steps_.fail(error);
    } else if (connecting_ = start_connecting(c_.options.dpu, &reason); !connecting_) {
        steps_.fail(connection_.on_dpu(std::string("cannot be reached: ") + reason));
    } else {
        return LS_IN_PROGRESS;
    }
    state_ = State::kSession;
    return LS_IN_PROGRESS;
}

void FarArrival::find_task_door(ls_task_door* out) const {
    memcpy(out->name, agent_name_.text, sizeof out->name);
    memcpy(out->token, agent_token_.data(), sizeof out->token);
    out->local_rank = machine_rank_;
    out->local_count = machine_ranks_;
}

int FarArrival::wait_for_connection() {
    const int connected = connect_result(connecting_);
    if (connected == 0 && awake_ns() < deadline_ns_) return LS_IN_PROGRESS;
    state_ = State::kSession;
    if (connected > 0) {
        connection_.begin(std::move(connecting_));
        say_hello();
    } else {
        const std::string why = connected == 0 ? "it does not answer" : strerror(-connected);
        steps_.fail(connection_.on_dpu("cannot be reached: " + why));
    }
    return LS_IN_PROGRESS;
}

void FarArrival::say_hello() {
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
    hello.copies = copies_;
    if (leads_) {
        hello.agent = agent_address_;
        const auto probe = probe_.get();
        hello.probe.assign(probe.begin(), probe.end());
        hello.no_probe = no_probe_;
    }
    connection_.stream().send(SessionKind::kHello, hello);
}

int FarArrival::finish_session() {
    const int rc = steps_.test(&connection_.stream());
    if (rc == LS_IN_PROGRESS) return rc;
    if (rc != LS_OK) return fail(steps_.reason());
    state_ = State::kReady;
    // What is open to the network stays where it is.
    if (c_.options.shared.keep != nullptr) c_.options.shared.keep();
    c_.in = c_.out = std::vector<std::byte>();
    agent_.tell_copies(c_.rank, copies_, neighbours_.word_address(), neighbours_.word());
    return LS_OK;
}

int FarArrival::step() {
    switch (state_) {
        case State::kIdentity:
            place_ranks();
            start_agent();
            state_ = State::kAgent;
            return LS_IN_PROGRESS;
        case State::kAgent:
            return share_agent();
        case State::kAgents:
            return connect();
        case State::kConnecting:
            return wait_for_connection();
        case State::kSession:
            return finish_session();
        case State::kReady:
            return LS_OK;
        case State::kFailed:
            break;
    }
    return LS_ERR_UNAVAILABLE;
}

int FarArrival::test() {
    if (state_ == State::kIdentity || state_ == State::kAgents) {
        const int rc = c_.exchange.test(c_.exchange.user);
        if (rc == LS_IN_PROGRESS) return rc;
        if (rc != LS_OK) return fail(kExchangeFailed);
    }
    return step();
}

}  // namespace longshore
