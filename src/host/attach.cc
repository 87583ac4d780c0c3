// How a job's ranks come together: who is where, the leader of each node starts its supervisor, all attach,
// all agree.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include <algorithm>

#include "base/prng.h"
#include "engine/message.h"
#include "fabric/dpu/host_region.h"
#include "fabric/network.h"
#include "fabric/ucx/packet.h"
#include "host/context.h"
#include "host/job_exchange.h"
#include "host/places.h"
#include "host/role.h"
#include "session/session.h"

namespace longshore {

struct NodeAnswer {
    NodeAddress address;
    uint32_t ok, workers_bytes, aliases;
    char reason[kReasonBytes];
};
struct AttachOutcome {
    uint32_t ok;
    char reason[kReasonBytes];
};

namespace {

constexpr uint64_t kStagingSlotsMin = 2, kStagingSlotsMax = 64;
constexpr uint64_t kStagingUnit = 4096;
constexpr uint64_t kHostStagingBytes = uint64_t{16} << 20;  // where none are asked for

void set_text(char* out, const std::string& text) {
    text.copy(out, kReasonBytes - 1);
}

// Of another rank, which may not have ended it.
std::string text_of(const char (&reason)[kReasonBytes]) {
    return {reason, strnlen(reason, sizeof reason)};
}

int fail(ls_context& c, const std::string& reason) {
    c.error = reason;
    c.state = ls_context::State::kFailed;
    c.control.reset();
    return LS_ERR_UNAVAILABLE;
}

// Several slots keep several chunks in flight; more of them than chunks fit would only be smaller.
void plan_staging(const ls_options& options, ServiceLimits* limits) {
    if (options.staging_bytes == 0) return;
    const uint64_t slots =
        std::clamp<uint64_t>(options.staging_bytes / options.chunk_bytes, kStagingSlotsMin, kStagingSlotsMax);
    const uint64_t bytes = options.staging_bytes / slots & ~(kStagingUnit - 1);
    limits->staging_slots = static_cast<uint32_t>(slots);
    limits->staging_slot_bytes =
        static_cast<uint32_t>(std::clamp<uint64_t>(bytes, kStagingUnit, uint64_t{1} << 31));
    limits->staging_only = stages_everything(options);
}

SupervisorParameters parameters_of(const ls_context& c) {
    SupervisorParameters out{};
    ServiceParameters& p = out.service;
    p.node_limits.ranks_max = c.local_count;
    p.node_limits.services_max = c.options.service_count;
    p.node_limits.chunk_bytes = static_cast<uint32_t>(c.options.chunk_bytes);
    p.service_limits.nodes_max = c.node_count;
    p.service_limits.services_per_node_max = c.options.service_count;
    p.service_limits.group_size_max = std::max(64u, c.size);
    p.service_limits.reads_max = c.options.service_reads_max;
    plan_staging(c.options, &p.service_limits);
    if (c.node_count > 1) {
        p.service_limits.reads_queued_max = 8192;
        p.service_limits.held_max = 4096;
        p.service_limits.imports_max = 4096;
    }
    p.service_limits.eager_bytes =
        static_cast<uint32_t>(std::min<uint64_t>(c.options.eager_bytes, kEagerBytesMax));
    p.node = static_cast<uint16_t>(c.node);
    p.node_count = static_cast<uint16_t>(c.node_count);
    p.rank_count = static_cast<uint16_t>(c.local_count);
    p.service_count = static_cast<uint16_t>(c.options.service_count);
    p.machine_ranks = c.machine_ranks;
    p.services_before = c.services_before;
    p.network = c.network;
    p.host_agents = c.options.host != nullptr;
    p.probe = c.probe;
    p.spin_us = c.options.service_spin_us;
    p.restarts_max = c.options.service_restarts_max;
    p.limit_s = c.options.limit_s;
    p.memory_inaccessible = c.options.memory_inaccessible != 0;
    p.trace = c.options.trace != 0;
    p.network_settings.choice = static_cast<NetworkChoice>(c.options.network);
    p.network_settings.tls = c.options.network_tls != 0;
    p.network_settings.port_first = c.options.network_port_first;
    p.network_settings.port_last = c.options.network_port_last;
    snprintf(p.network_settings.interfaces, sizeof p.network_settings.interfaces, "%s",
             c.network_interfaces.c_str());
    snprintf(p.cores, sizeof p.cores, "%s", c.service_cores.c_str());
    return out;
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

bool tell_workers(ls_context& c) {
    for (; c.workers_told < c.workers.size(); ++c.workers_told) {
        const std::vector<std::byte>& all = c.workers[c.workers_told];
        NodeWorkers workers;
        workers.node = c.workers_told;
        workers.bytes = static_cast<uint32_t>(all.size());
        std::vector<std::byte> packet(sizeof workers + all.size());
        memcpy(packet.data(), &workers, sizeof workers);
        memcpy(packet.data() + sizeof workers, all.data(), all.size());
        const Io io = send_packet(c.control, packet.data(), packet.size());
        if (io == Io::kAgain) return false;
        if (io == Io::kClosed) {
            c.problem = "the supervisor of the service processes is gone";
            return true;
        }
    }
    return true;
}

// Sends what has not been sent of the job's addresses; false: try again later.
bool tell_nodes(ls_context& c) {
    while (c.nodes_told < c.nodes.size()) {
        AddressBookPiece piece;
        piece.total = static_cast<uint32_t>(c.nodes.size());
        piece.first = c.nodes_told;
        piece.count = std::min(kAddressesPerPiece, piece.total - piece.first);
        piece.aliases = c.aliases;
        std::vector<std::byte> packet(sizeof piece + piece.count * sizeof(NodeAddress));
        memcpy(packet.data(), &piece, sizeof piece);
        memcpy(packet.data() + sizeof piece, &c.nodes[piece.first], piece.count * sizeof(NodeAddress));
        const Io io = send_packet(c.control, packet.data(), packet.size());
        if (io == Io::kAgain) return false;
        if (io == Io::kClosed) {
            c.problem = "the supervisor of the service processes is gone";
            return true;
        }
        c.nodes_told += piece.count;
    }
    return tell_workers(c);
}

void ask_to_attach(ls_context& c) {
    const NodeAddress& node = c.nodes[c.node];
    c.control = connect_to(node.name);
    if (!c.control || !peer_is_same_user(c.control, nullptr)) {
        c.problem = std::string("cannot reach the supervisor of the service processes: ") + strerror(errno);
        return;
    }
    AttachRequest request;
    request.token = node.token;
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
            if (now_ns() > c.deadline_ns)
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
    return c.local != 0 || tell_nodes(c);
}

// The supervisors' addresses, and how many bytes each node's service processes have. Empty, or what went
// wrong on some node.
std::string take_addresses(ls_context& c) {
    c.nodes.resize(c.node_count);
    if (c.network) c.workers.resize(c.node_count);
    for (uint32_t r = 0; r < c.size; ++r) {
        const auto answer = received<NodeAnswer>(c, r);
        if (!answer.ok) return text_of(answer.reason);
        if (c.places[r].local != 0) continue;
        if (!is_sound(answer.address, c.options.service_count))
            return "the first rank of node " + std::to_string(c.places[r].node) +
                   " tells no address of its supervisor";
        c.nodes[c.places[r].node] = answer.address;
        if (answer.workers_bytes > kWorkersBytesMax) return "the network's addresses are too long";
        if (c.network && answer.workers_bytes == 0) return "a node has no addresses in the network";
        if (c.network) c.workers[c.places[r].node].resize(answer.workers_bytes);
    }
    return "";
}

// Whether service processes on DPUs have aliases of their ranks' memory: where all nodes can, else nowhere.
// Empty, or why what was asked for cannot be had; the same on all ranks.
std::string agree_on_aliases(ls_context& c) {
    if (c.options.host == nullptr || c.far_mode == LS_MEMORY_STAGING) return "";
    for (uint32_t r = 0; r < c.size; ++r) {
        const auto answer = received<NodeAnswer>(c, r);
        if (c.places[r].local != 0 || answer.aliases != 0) continue;
        const std::string why = "memory of node " + std::to_string(c.places[r].node) +
                                " has no alias on its DPU: " + text_of(answer.reason);
        if (c.far_mode == LS_MEMORY_DIRECT) return "LONGSHORE_MEMORY_MODE=direct: " + why;
        log_line(c, c.rank == 0 ? 1 : 2, ("service processes stage all bytes: " + why).c_str());
        return "";
    }
    c.aliases = true;
    c.options.memory_mode = LS_MEMORY_DIRECT;
    return "";
}

// Where the network reaches each node's service processes: as many bytes of all as the longest has.
int start_workers_exchange(ls_context& c) {
    // What all have told of this node may be another length than it has: ranks relay what stand-ins say.
    size_t longest = std::max<size_t>(1, c.own_workers.size());
    for (const auto& all : c.workers) longest = std::max(longest, all.size());
    c.out.assign(longest, std::byte{0});
    std::copy(c.own_workers.begin(), c.own_workers.end(), c.out.begin());
    c.in.assign(longest * c.size, std::byte{0});
    return c.exchange.start(c.exchange.user, c.out.data(), c.in.data(), longest);
}

// False: what service processes say of where the network reaches them is no address.
bool note_network(ls_context& c) {
    const bool hosts = c.options.host != nullptr;
    ServiceBook book(c.workers.size());
    for (size_t node = 0; node < book.size(); ++node) {
        if (!split_addresses(c.workers[node], c.options.service_count + hosts, &book[node])) return false;
        book[node].resize(c.options.service_count);  // the agent's comes last
    }
    NetworkKind kind{};
    if (!look_at_network(parameters_of(c).service.network_settings, hosts, book, c.node, &kind,
                         &c.surroundings.link_mbps))
        return false;
    c.surroundings.joined_by =
        kind == NetworkKind::kTcp ? ls_surroundings::LS_JOINED_BY_TCP : ls_surroundings::LS_JOINED_BY_UCX;
    return true;
}

int start_attaching(ls_context& c) {
    c.state = ls_context::State::kAttaching;
    c.deadline_ns = now_ns() + c.options.limit_s * 1'000'000'000ull;
    return LS_IN_PROGRESS;
}

int step(ls_context& c) {
    using State = ls_context::State;
    switch (c.state) {
        case State::kIdentity: {
            std::string problem = place_ranks(c);
            if (!problem.empty()) return fail(c, problem);
            c.state = State::kStarting;
            if (c.local == 0 && c.options.host != nullptr &&
                (c.agent.empty() || c.agent.size() > kAddressBytesMax))
                c.problem = "there is no address of the agent of the ranks' machine, or one that is too long";
            else if (c.local == 0)
                c.starter.start(c.service_path.c_str(), parameters_of(c), &c.problem);
            return LS_IN_PROGRESS;
        }
        case State::kStarting: {
            NodeAnswer mine{};
            if (c.local == 0 && c.problem.empty()) {
                ServiceReady ready;
                if (c.starter.test(&ready, &c.own_workers, &c.problem) == ServiceStarter::State::kPending)
                    return LS_IN_PROGRESS;
                if (c.options.host != nullptr) append_address(c.agent, &c.own_workers);
                mine.aliases = ready.aliases;
                set_text(mine.reason, c.probe.bytes != 0 ? ready.reason : c.no_probe);
                mine.address = {ready.name, ready.token, static_cast<uint16_t>(c.options.service_count), {}};
                gethostname(mine.address.host, sizeof mine.address.host - 1);
            }
            mine.workers_bytes = static_cast<uint32_t>(c.own_workers.size());
            mine.ok = c.problem.empty();
            if (!mine.ok) set_text(mine.reason, c.problem);
            c.state = State::kAddresses;
            return start_exchange(c, mine) == LS_OK ? LS_IN_PROGRESS
                                                    : fail(c, "the exchange between ranks failed");
        }
        case State::kAddresses: {
            std::string problem = take_addresses(c);
            if (problem.empty()) problem = agree_on_aliases(c);
            if (!problem.empty()) return fail(c, problem);
            if (!c.network) return start_attaching(c);
            c.state = State::kWorkers;
            return start_workers_exchange(c) == LS_OK ? LS_IN_PROGRESS
                                                      : fail(c, "the exchange between ranks failed");
        }
        case State::kWorkers:
            for (uint32_t r = 0; r < c.size; ++r) {
                if (c.places[r].local != 0) continue;
                std::vector<std::byte>& all = c.workers[c.places[r].node];
                memcpy(all.data(), c.in.data() + r * c.out.size(), all.size());
            }
            if (!note_network(c)) c.problem = "the address of a service process is none";
            return start_attaching(c);
        case State::kAttaching: {
            if (!turn_attaching(c)) return LS_IN_PROGRESS;
            AttachOutcome mine{};
            mine.ok = c.problem.empty();
            set_text(mine.reason, c.problem);
            c.state = State::kAgreeing;
            return start_exchange(c, mine) == LS_OK ? LS_IN_PROGRESS
                                                    : fail(c, "the exchange between ranks failed");
        }
        case State::kAgreeing:
            for (uint32_t r = 0; r < c.size; ++r) {
                const auto outcome = received<AttachOutcome>(c, r);
                if (!outcome.ok) return fail(c, text_of(outcome.reason));
            }
            // As much as all ranks have said: with many of them, not a little.
            c.in = std::vector<std::byte>();
            c.out = std::vector<std::byte>();
            c.workers.clear();
            c.surroundings.spare_cores = SightLayout::job(c.sight.data()).spare_cores.load() != 0;
            c.state = State::kReady;
            return LS_OK;
        case State::kReady:
            return LS_OK;
        case State::kFailed:
            break;
    }
    return LS_ERR_UNAVAILABLE;
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

bool exchanging(const ls_context& c) {
    return c.state == ls_context::State::kIdentity || c.state == ls_context::State::kAddresses ||
           c.state == ls_context::State::kWorkers || c.state == ls_context::State::kAgreeing;
}

}  // namespace

bool stages_everything(const ls_options& options) {
    return options.staging_bytes != 0 &&
           (options.memory_mode == LS_MEMORY_STAGING ||
            (options.memory_mode == LS_MEMORY_AUTO && options.memory_inaccessible));
}

void attach_to_memory(ls_context& c, const AttachAnswer& answer, std::vector<Fd> descriptors) {
    const uint32_t services = c.options.service_count;
    if (answer.services != services || descriptors.size() != 2 + services ||
        !is_memory_file(descriptors[0].get(), answer.memory_bytes, nullptr) ||
        !is_memory_file(descriptors[1].get(), answer.sight_bytes, nullptr)) {
        c.problem = "the supervisor of the service processes does not keep to the protocol";
        return;
    }
    c.memory_file = std::move(descriptors[0]);
    c.mapping = Mapping::window(c.memory_file.get(), 0, answer.memory_bytes);
    c.sight = Mapping::window(descriptors[1].get(), 0, answer.sight_bytes);
    if (!c.mapping || !c.sight || !NodeMemory::open(c.mapping.data(), answer.memory_bytes, &c.memory)) {
        c.problem = std::string("cannot map the node's memory: ") + strerror(errno);
        return;
    }
    c.engine_block = Mapping::anonymous(RankEngine::bytes_needed(c.memory.limits()));
    if (!c.engine_block) {
        c.problem = "no memory";
        return;
    }
    std::vector<Fd> eventfds;
    for (uint32_t s = 0; s < services; ++s) eventfds.push_back(std::move(descriptors[2 + s]));
    const LocalRank self{static_cast<uint16_t>(c.local)};
    const auto pid = static_cast<uint32_t>(getpid());
    RankSlot& slot = c.memory.rank(self);
    slot.service = c.places[c.rank].service;
    c.regions = RegionCache(c.memory, self, pid, process_start_time(pid), c.options.shared);
    c.doorbell = std::make_unique<Doorbell>(c.memory, std::move(eventfds));
    c.copier = std::make_unique<NodeCopier>(
        c.memory, NodeCopier::Options{true, self, c.options.memory_inaccessible != 0});
    c.engine = std::make_unique<RankEngine>(c.engine_block.data(), c.memory, self);
    c.lives.resize(services);
    c.service_trace_taken.resize(services);
    if (c.options.trace) c.trace.resize(kTraceEntries);
    // Where a rank has no memory to give there is a region all the same, of a node that there is not: whoever
    // wants it learns that it cannot be had, and waits for nothing.
    if (c.options.host != nullptr)
        publish_host_region(c.memory.region(self, RegionId{kFarRegionsMax}),
                            {NodeId{UINT16_MAX}, 0, INT64_MAX, {std::byte{0}}, {}});
    show_rank(c);
}

int test_attaching(ls_context& c) {
    if (exchanging(c)) {
        const int rc = c.exchange.test(c.exchange.user);
        if (rc == LS_IN_PROGRESS) return rc;
        if (rc != LS_OK) return fail(c, "the exchange between ranks failed");
    }
    return step(c);
}

}  // namespace longshore

using namespace longshore;

// Of the structs that travel as they are, and of messages by their versions.
uint64_t ls_layout() {
    uint64_t hash = 1;
    for (const uint64_t part :
         {uint64_t{kControlMagic}, uint64_t{kWireVersion}, uint64_t{kPacketVersion},
          uint64_t{sizeof(Identity)}, uint64_t{sizeof(NodeAnswer)}, uint64_t{sizeof(AttachOutcome)},
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
        if (c->role->start_job() != LS_OK) return static_cast<int>(LS_ERR_UNAVAILABLE);
        *out = c.release();
        return static_cast<int>(LS_OK);
    });
}
