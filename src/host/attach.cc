// How a job's ranks come together: who is where, the leader of each node starts its supervisor, all attach,
// all agree.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include <algorithm>

#include "base/prng.h"
#include "engine/message.h"
#include "fabric/network.h"
#include "fabric/ucx/packet.h"
#include "host/context.h"
#include "host/job_exchange.h"
#include "host/local_role.h"
#include "host/places.h"
#include "host/role.h"
#include "host/supervisor_parameters.h"

namespace longshore {

namespace {

constexpr uint64_t kHostStagingBytes = uint64_t{16} << 20;  // where none are asked for

int fail(ls_context& c, const std::string& reason) {
    c.error = reason;
    c.state = ls_context::State::kFailed;
    c.control.reset();
    c.meeting.reset();
    return LS_ERR_UNAVAILABLE;
}

std::string forbidden(int error) {
    return std::string("process_vm_readv between processes of this user is forbidden (") + strerror(error) +
           "); allow it (sysctl kernel.yama.ptrace_scope=0; in a container: --cap-add=SYS_PTRACE)";
}

void probe_neighbour(ls_context& c) {
    uint64_t value = 0;
    const iovec local{&value, sizeof value};
    const iovec remote{reinterpret_cast<void*>(c.neighbour_probe), sizeof value};
    if (process_vm_readv(static_cast<pid_t>(c.neighbour_pid), &local, 1, &remote, 1, 0) != sizeof value) {
        c.problem = forbidden(errno);
    } else if (value != c.neighbour_value) {
        c.problem = "process_vm_readv reads something else than was written";
    }
}

// Sends the supervisor what it has not heard of the address book; false: try again later.
bool tell_book(ls_context& c) {
    for (; c.packets_told < c.book.size() && c.problem.empty(); ++c.packets_told) {
        const std::vector<std::byte>& packet = c.book[c.packets_told];
        const Io io = send_packet(c.control, packet.data(), packet.size());
        if (io == Io::kAgain) return false;
        if (io == Io::kClosed) c.problem = "the supervisor of the service processes is gone";
    }
    c.book = {};
    return true;
}

void ask_to_attach(ls_context& c) {
    const NodeWord& node = c.meeting->word();
    c.supervisor_name = unpack_name(node.name);
    c.supervisor_token = node.token;
    c.control = connect_to(c.supervisor_name);
    if (!c.control || !peer_is_same_user(c.control, nullptr)) {
        c.problem = std::string("cannot reach the supervisor of the service processes: ") + strerror(errno);
        return;
    }
    AttachRequest request;
    request.token = c.supervisor_token;
    request.local_rank = c.local;
    request.pid = static_cast<uint32_t>(getpid());
    request.probe_address = reinterpret_cast<uint64_t>(&c.probe_value);
    request.probe_value = c.probe_value;
    if (send_packet(c.control, &request, sizeof request) != Io::kOk)
        c.problem = "the supervisor of the service processes is gone";
}

// One step of attaching; true when it is over, one way or the other (then c.problem tells).
bool turn_attaching(ls_context& c) {
    if (!c.asked) {
        c.asked = true;
        if (c.options.host == nullptr) probe_neighbour(c);
        if (c.problem.empty()) ask_to_attach(c);
    }
    if (!c.problem.empty()) return true;
    if (!c.answered) {
        AttachAnswer answer;
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        const Io io = receive_control(c, &answer, sizeof answer, &bytes, &descriptors);
        if (io == Io::kAgain) {
            if (awake_ns() > c.deadline_ns)
                c.problem = "the supervisor of the service processes did not answer in time";
            return !c.problem.empty();
        }
        if (io == Io::kClosed || bytes != sizeof answer || !answer.ok) {
            c.problem = "the supervisor of the service processes refused this rank";
        } else if (answer.probe_error != 0 && c.options.host == nullptr) {
            c.problem = forbidden(answer.probe_error);
        } else {
            attach_to_memory(c, answer, std::move(descriptors));
        }
        c.answered = true;
        if (!c.problem.empty()) return true;
    }
    return true;
}

Meeting::Options meeting_of(const ls_context& c) {
    Meeting::Options options;
    options.exchange = c.exchange;
    options.job = {c.node_count, static_cast<uint16_t>(c.options.service_count), c.network,
                   c.options.host != nullptr};
    options.places = c.places;
    return options;
}

// This node's entry of the address book, as the supervisor has put it into shared memory.
void take_own_entry(ls_context& c) {
    const auto entry = SightLayout::entry_bytes(c.sight.data());
    c.own_entry.assign(entry.begin(), entry.end());
    if (c.own_entry.size() == c.meeting->word().entry_bytes) return;
    c.own_entry.clear();
    c.problem = "the supervisor of the service processes tells two addresses";
}

// On the first rank of a node, once all entries have come. What it finds is for all ranks of its node.
bool take_book(ls_context& c) {
    AddressBook book;
    if (!c.meeting->make_book(&book)) return false;
    book.aliases = c.aliases;
    if (c.network) {
        NetworkKind kind{};
        uint32_t mbps = 0;
        if (!look_at_network(parameters_of(c).service.network_settings, c.options.host != nullptr,
                             book.services(), c.node, &kind, &mbps))
            return false;
        SightJob& job = SightLayout::job(c.sight.data());
        job.joined_by.store(kind == NetworkKind::kTcp ? ls_surroundings::LS_JOINED_BY_TCP
                                                      : ls_surroundings::LS_JOINED_BY_UCX);
        job.link_mbps.store(mbps);
    }
    c.book = book.packets();
    return true;
}

// For whoever looks at the jobs of a machine.
uint64_t job_name_of(const ls_context& c) {
    uint64_t hash = c.size;
    for (const char at : std::string(c.meeting->name_of_job().text))
        hash = mix64(hash ^ static_cast<unsigned char>(at));
    return hash | 1;
}

int start_attaching(ls_context& c) {
    c.state = ls_context::State::kAttaching;
    c.deadline_ns = awake_ns() + c.options.limit_s * 1'000'000'000ull;
    return LS_IN_PROGRESS;
}

// An exchange has begun whose end step() takes up in `next`.
int await(ls_context& c, ls_context::State next, int started) {
    c.state = next;
    return started == LS_OK ? LS_IN_PROGRESS : fail(c, "the exchange between ranks failed");
}

int explain(ls_context& c, uint32_t rank, const std::string& own) {
    return await(c, ls_context::State::kExplaining, c.meeting->start_reason(rank, own));
}

void start_supervisor(ls_context& c) {
    const SupervisorParameters parameters = parameters_of(c);
    c.starter.start(c.service_path.c_str(), "supervisor", parameters, parameters.service.limit_s, &c.problem);
}

int end_identity(ls_context& c) {
    const std::string problem = place_ranks(c);
    if (!problem.empty()) return fail(c, problem);
    c.in = {};  // as much as all ranks have said: with many of them, not a little
    c.meeting = std::make_unique<Meeting>(meeting_of(c));
    c.state = ls_context::State::kStarting;
    if (c.local == 0 && c.options.host != nullptr && (c.agent.empty() || c.agent.size() > kAddressBytesMax))
        c.problem = "there is no address of the agent of the ranks' machine, or one that is too long";
    else if (c.local == 0)
        start_supervisor(c);
    return LS_IN_PROGRESS;
}

int start_words(ls_context& c) {
    NodeWord mine;
    if (c.local == 0 && c.problem.empty()) {
        ServiceReady ready;
        if (c.starter.test(&ready, &c.own_entry, &c.problem) == ServiceStarter::State::kPending)
            return LS_IN_PROGRESS;
        if (c.problem.empty() && !pack_name(ready.name, &mine.name))
            c.problem = "longshored is of another build";
        mine.token = ready.token;
        mine.entry_bytes = static_cast<uint16_t>(c.own_entry.size());
        mine.aliases = ready.aliases != 0;
        if (mine.aliases == 0) c.no_probe = c.probe.bytes != 0 ? ready.reason : c.no_probe;
    }
    mine.ok = c.problem.empty();
    return await(c, ls_context::State::kAddresses, c.meeting->start_words(mine));
}

// Whether service processes on DPUs have aliases of their ranks' memory: where all nodes can, else nowhere.
int agree_on_aliases(ls_context& c) {
    if (c.options.host == nullptr || c.far_mode == LS_MEMORY_STAGING) return start_attaching(c);
    if (const auto without = c.meeting->without_alias()) return explain(c, *without, c.no_probe);
    c.aliases = true;
    c.options.memory_mode = LS_MEMORY_DIRECT;
    return start_attaching(c);
}

int end_words(ls_context& c) {
    if (const auto failed = c.meeting->failed_node()) return explain(c, *failed, c.problem);
    if (!c.meeting->has_all_words()) return fail(c, "a node tells no address of its supervisor");
    c.job_name = job_name_of(c);
    return agree_on_aliases(c);
}

// All know now why some rank has failed, or why memory of some node has no alias.
int end_explaining(ls_context& c) {
    const std::string reason = c.meeting->reason();
    const auto without = c.meeting->without_alias();
    if (c.asked || c.meeting->failed_node() || !without) return fail(c, reason);
    const std::string why =
        "memory of node " + std::to_string(c.places[*without].node) + " has no alias on its DPU: " + reason;
    if (c.far_mode == LS_MEMORY_DIRECT) return fail(c, "LONGSHORE_MEMORY_MODE=direct: " + why);
    log_line(c, c.rank == 0 ? 1 : 2, ("service processes stage all bytes: " + why).c_str());
    return start_attaching(c);
}

int end_attaching(ls_context& c) {
    if (c.problem.empty()) take_own_entry(c);
    const bool whole = c.problem.empty();
    return await(c, ls_context::State::kEntries,
                 c.meeting->start_entries(whole ? c.own_entry : std::span<const std::byte>{}));
}

// A rank that could not attach has given nothing, so that no other has a book: it is the one to be asked why.
int end_entries(ls_context& c) {
    c.state = ls_context::State::kTelling;
    if (c.local == 0 && c.problem.empty() && !take_book(c)) {
        c.problem = "the address of a service process is none";
        c.failed_in_turn = true;
    }
    return LS_IN_PROGRESS;
}

int tell(ls_context& c) {
    if (!tell_book(c)) return LS_IN_PROGRESS;
    const Outcome mine = c.problem.empty()  ? Outcome::kOk
                         : c.failed_in_turn ? Outcome::kFailedInTurn
                                            : Outcome::kFailed;
    return await(c, ls_context::State::kAgreeing, c.meeting->start_outcomes(mine));
}

int end_agreeing(ls_context& c) {
    if (const auto failed = c.meeting->failed_rank()) return explain(c, *failed, c.problem);
    c.meeting.reset();
    c.out = {};
    c.own_entry = {};
    const SightJob& job = SightLayout::job(c.sight.data());
    c.surroundings.spare_cores = job.spare_cores.load() != 0;
    c.surroundings.joined_by = static_cast<decltype(c.surroundings.joined_by)>(
        std::min<uint32_t>(job.joined_by.load(), ls_surroundings::LS_JOINED_BY_UCX));
    c.surroundings.link_mbps = job.link_mbps.load();
    c.state = ls_context::State::kReady;
    return LS_OK;
}

int step(ls_context& c) {
    using State = ls_context::State;
    switch (c.state) {
        case State::kIdentity:
            return end_identity(c);
        case State::kStarting:
            return start_words(c);
        case State::kAddresses:
            return end_words(c);
        case State::kAttaching:
            return turn_attaching(c) ? end_attaching(c) : static_cast<int>(LS_IN_PROGRESS);
        case State::kEntries:
            return end_entries(c);
        case State::kTelling:
            return tell(c);
        case State::kAgreeing:
            return end_agreeing(c);
        case State::kExplaining:
            return end_explaining(c);
        case State::kReady:
            return LS_OK;
        case State::kFailed:
            break;
    }
    return LS_ERR_UNAVAILABLE;
}

// Tests the exchange that is under way, if one is: LS_OK when it is over, or none was.
int test_exchange(ls_context& c) {
    using State = ls_context::State;
    if (c.state == State::kIdentity) return c.exchange.test(c.exchange.user);
    const bool meets = c.state == State::kAddresses || c.state == State::kEntries ||
                       c.state == State::kAgreeing || c.state == State::kExplaining;
    return meets ? c.meeting->test() : static_cast<int>(LS_OK);
}

// The caller stands in for a rank that is on another machine: unless aliases are agreed on, nothing moves but
// through staging memory; and nothing by this process.
void take_host(ls_context& c, const ls_host& host) {
    const auto* const agent = static_cast<const std::byte*>(host.agent);
    c.agent.assign(agent, agent + host.agent_bytes);
    c.host = {host.machine, c.agent.data(), c.agent.size(), nullptr, 0, nullptr};
    c.options.host = &c.host;
    c.far_mode = c.options.memory_mode;
    c.no_probe = host.no_probe != nullptr ? host.no_probe : "";
    if (c.far_mode != LS_MEMORY_STAGING &&
        !c.probe.set({static_cast<const std::byte*>(host.probe), host.probe_bytes}))
        c.no_probe = "what its agent exports is too long";
    c.options.memory_mode = LS_MEMORY_STAGING;
    if (c.options.staging_bytes == 0) c.options.staging_bytes = kHostStagingBytes;
    c.cooperative = false;
}

}  // namespace

int test_attaching(ls_context& c) {
    const int rc = test_exchange(c);
    if (rc == LS_IN_PROGRESS) return rc;
    if (rc != LS_OK) return fail(c, "the exchange between ranks failed");
    return step(c);
}

}  // namespace longshore

using namespace longshore;

// Of the structs that travel as they are, and of messages by their versions.
uint64_t ls_layout() {
    uint64_t hash = 1;
    for (const uint64_t part :
         {uint64_t{kControlMagic}, uint64_t{kWireVersion}, uint64_t{kPacketVersion}, dpu_roles.layout,
          uint64_t{sizeof(Identity)}, uint64_t{sizeof(NodeWord)}, uint64_t{sizeof(SupervisorParameters)},
          uint64_t{sizeof(Member)}, uint64_t{sizeof(ServiceParameters)}, uint64_t{sizeof(OperationRecord)}})
        hash = mix64(hash ^ part);
    return hash;
}

int ls_context_start(const ls_options* options, const ls_exchange* exchange, ls_context** out) {
    *out = nullptr;
    return guarded([&] {
        auto c = std::make_unique<ls_context>();
        c->options = *options;
        c->service_path = options->service_path ? options->service_path : "";
        c->service_cores = options->service_cores ? options->service_cores : "auto";
        c->network_interfaces = options->network_interfaces ? options->network_interfaces : "";
        c->exchange = *exchange;
        c->rank = exchange->rank;
        c->size = exchange->size;
        c->cooperative = options->wait_cooperative != 0;
        if (options->host != nullptr) take_host(*c, *options->host);
        if (c->options.service_count == 0 || c->options.service_count > kServicesPerNodeMax || c->size == 0 ||
            c->rank >= c->size || c->options.chunk_bytes == 0 || c->options.chunk_bytes > UINT32_MAX)
            return static_cast<int>(LS_ERR_ARGUMENT);
        c->alive = Mapping::anonymous(4096);
        if (c->alive && madvise(c->alive.data(), 4096, MADV_WIPEONFORK) == 0)
            c->alive.data()[0] = std::byte{1};
        if (options->dpu != nullptr) {
            c->dpu = options->dpu;
            c->options.dpu = c->dpu.c_str();
        }
        c->role = choose_role(*c);
        if (!c->role) {  // on all ranks, and tests of the context say so
            c->role = std::make_unique<LocalRole>(*c);
            fail(*c, "this Longshore was built without DPUs (LONGSHORE_DPU)");
        } else if (c->role->start_job() != LS_OK) {
            return static_cast<int>(LS_ERR_UNAVAILABLE);
        }
        *out = c.release();
        return static_cast<int>(LS_OK);
    });
}
