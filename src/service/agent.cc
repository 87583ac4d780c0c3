#include "service/agent.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/dpu/host_region.h"
#include "fabric/dpu/probe.h"
#include "fabric/network.h"
#include "fabric/shm/agent_control.h"
#include "service/placement.h"
#include "service/starter.h"

namespace longshore {
namespace {

constexpr uint64_t kSilentLimitNs = 2'000'000'000;  // a connection that does not say who it is
constexpr size_t kAgentConnectionsMax = 4096;
constexpr int kStepsPerTurn = 64, kPacketsPerTurn = 64;
constexpr int kLookMs = 500;  // at what nothing wakes for
constexpr uint64_t kFirstMappedBytes = uint64_t{1} << 30;

class Agent {
  public:
    explicit Agent(const AgentParameters& parameters) : p_(parameters) {}
    bool start(ServiceReady* ready);
    int run(const Fd& starter);
    std::span<const std::byte> address() const { return network_->address(); }

  private:
    struct Client {
        Fd socket;
        Fd process;  // readable when the rank is gone: a forked child may keep the connection open
        uint64_t since_ns = 0;
        Fd file;  // once it has said hello
        std::vector<Mapping>
            memories;  // of the file, which grows: each larger than the one before, the last in use
        std::unordered_map<uint32_t, UcxOpening*> openings;
    };

    bool open_network(std::string* error, std::string* why_not);
    bool watch(const Fd& fd);
    void accept_clients();
    void turn_clients();
    bool turn_client(Client& client);
    bool handle(Client& client, size_t bytes, std::vector<Fd>& descriptors);
    bool greet(Client& client, const AgentHello& hello, std::vector<Fd>& descriptors);
    bool open(Client& client, const AgentOpen& request);
    std::span<std::byte> find(Client& client, uint64_t offset, uint64_t bytes);
    bool close(Client& client, const AgentClose& request);
    bool reply(const Client& client, AgentAnswer answer, std::span<const std::byte> key = {},
               std::span<const std::byte> exported = {});
    void forget(Client& client);

    AgentParameters p_;
    std::unique_ptr<MemoryAgent> network_;
    SocketName name_;
    Token token_{};
    Fd listener_, clients_ready_;
    Mapping probed_;
    ExportProbe probe_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<Mapping> left_;  // where the memory of ranks was that have gone
    uint32_t ranks_ever_ = 0, ranks_now_ = 0;
    bool nameless_ = false;  // some client has not said hello
    alignas(8) std::byte buffer_[kAgentPacketBytesMax];
};

bool Agent::start(ServiceReady* ready) {
    const auto fail = [&](const std::string& why) {
        why.copy(ready->reason, sizeof ready->reason - 1);
        return false;
    };
    reset_affinity();
    rlimit files{};  // two for each rank
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    std::string error, why_not;
    if (!open_network(&error, &why_not)) return fail(error);
    if (address().size() > kAddressBytesMax)
        return fail("the network's addresses are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)");
    if (!make_secret(&name_, &token_)) return fail("no random numbers");
    listener_ = listen_at(name_);
    clients_ready_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    if (!listener_ || !clients_ready_ || !watch(listener_))
        return fail(std::string("cannot listen: ") + strerror(errno));
    ready->name = name_;
    ready->token = token_;
    ready->probe = probe_;
    why_not.copy(ready->reason, sizeof ready->reason - 1);
    return true;
}

// One that exports memory if it is to and can; else `why_not`.
bool Agent::open_network(std::string* error, std::string* why_not) {
    const NetworkPart* const part = load_own_network(NetworkKind::kUcx, error);
    if (part == nullptr) return false;
    if (p_.exports != 0) network_ = part->open_agent(true, why_not);
    if (network_ && !probe_.set(make_export_probe(*network_, &probed_, why_not))) probe_ = {};
    if (probe_.bytes == 0) network_.reset();
    if (!network_) network_ = part->open_agent(false, error);
    return network_ != nullptr;
}

bool Agent::watch(const Fd& fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(clients_ready_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
}

// --- ranks

void Agent::accept_clients() {
    for (int i = 0; i < kAcceptedPerTurn; ++i) {
        Fd socket = accept_from(listener_);
        if (!socket) return;
        auto client = std::make_unique<Client>();
        pid_t pid = 0;
        if (!peer_is_same_user(socket, &pid) || clients_.size() >= kAgentConnectionsMax || !watch(socket))
            continue;
        client->socket = std::move(socket);
        client->process = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        if (client->process) watch(client->process);
        client->since_ns = now_ns();
        clients_.push_back(std::move(client));
    }
}

bool Agent::reply(const Client& client, AgentAnswer answer, std::span<const std::byte> key,
                  std::span<const std::byte> exported) {
    answer.key_bytes = static_cast<uint32_t>(key.size());
    answer.exported_bytes = static_cast<uint32_t>(exported.size());
    std::vector<std::byte> packet(sizeof answer + key.size() + exported.size());
    memcpy(packet.data(), &answer, sizeof answer);
    std::copy(key.begin(), key.end(), packet.begin() + sizeof answer);
    std::copy(exported.begin(), exported.end(), packet.end() - static_cast<ptrdiff_t>(exported.size()));
    return send_packet(client.socket, packet.data(), packet.size()) == Io::kOk;
}

bool Agent::greet(Client& client, const AgentHello& hello, std::vector<Fd>& descriptors) {
    if (client.file || !same_token(hello.token, token_)) return false;
    AgentAnswer answer;
    const auto refuse = [&](const std::string& why) {
        why.copy(answer.reason, sizeof answer.reason - 1);
        reply(client, answer);
        return false;
    };
    if (descriptors.size() != 1 || !is_memory_file(descriptors[0].get(), 0, nullptr))
        return refuse("what a rank gives is no shared memory that stays as large as it is");
    client.file = std::move(descriptors[0]);
    ++ranks_ever_, ++ranks_now_;
    answer.ok = 1;
    return reply(client, answer);
}

// Bytes that the file has. Mapped with room to grow; what was mapped before stays, because it is open. Empty:
// they cannot be mapped.
std::span<std::byte> Agent::find(Client& client, uint64_t offset, uint64_t bytes) {
    const uint64_t end = offset + bytes;
    if (client.memories.empty() || client.memories.back().size() < end) {
        uint64_t room = client.memories.empty() ? kFirstMappedBytes : 2 * client.memories.back().size();
        while (room < end) room *= 2;
        Mapping memory = Mapping::shared(client.file.get(), room);
        if (!memory) return {};
        madvise(memory.data(), room, MADV_DONTDUMP);
        client.memories.push_back(std::move(memory));
    }
    return {client.memories.back().data() + offset, bytes};
}

bool Agent::open(Client& client, const AgentOpen& request) {
    uint64_t all = 0;
    if (request.id == 0 || client.openings.contains(request.id) || request.bytes == 0 ||
        !is_memory_file(client.file.get(), 0, &all) || request.offset > all ||
        request.bytes > all - request.offset)
        return false;
    AgentAnswer answer;
    answer.id = request.id;
    std::vector<std::byte> key;
    std::string error;
    const std::span<std::byte> memory = find(client, request.offset, request.bytes);
    UcxOpening* opening = nullptr;
    if (memory.empty()) {
        error = std::string("a rank's memory cannot be mapped: ") + strerror(errno);
    } else if (client.openings.size() >= kAgentOpeningsMax) {
        error = "too many pieces of a rank's memory are open to the network";
    } else if ((opening = network_->open_memory(memory, &key, &error)) != nullptr &&
               key.size() > kHostKeyBytesMax) {
        network_->close_memory(opening);
        opening = nullptr;
        error = "the network's keys are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)";
    }
    if (opening == nullptr) {
        error.copy(answer.reason, sizeof answer.reason - 1);
        return reply(client, answer);
    }
    client.openings[request.id] = opening;
    answer.ok = 1;
    answer.address = reinterpret_cast<uint64_t>(memory.data());
    // Without, the memory can be reached all the same.
    std::vector<std::byte> exported;
    if (request.exports != 0) network_->export_memory(opening, &exported, &error);
    return reply(client, answer, key, exported);
}

bool Agent::close(Client& client, const AgentClose& request) {
    const auto found = client.openings.find(request.id);
    if (found == client.openings.end()) return false;
    network_->close_memory(found->second);
    client.openings.erase(found);
    return true;
}

// False: the connection is over.
bool Agent::handle(Client& client, size_t bytes, std::vector<Fd>& descriptors) {
    const auto take = [&](auto* packet) {
        if (bytes != sizeof *packet) return false;
        memcpy(static_cast<void*>(packet), buffer_, sizeof *packet);
        return true;
    };
    AgentHeader header;
    if (bytes < sizeof header) return false;
    memcpy(&header, buffer_, sizeof header);
    if (header.magic != kControlMagic) return false;
    if (header.kind == AgentKind::kHello) {
        AgentHello hello;
        return take(&hello) && greet(client, hello, descriptors);
    }
    if (!client.file || !descriptors.empty()) return false;
    if (header.kind == AgentKind::kOpen) {
        AgentOpen request;
        return take(&request) && open(client, request);
    }
    AgentClose request;
    return header.kind == AgentKind::kClose && take(&request) && close(client, request);
}

bool Agent::turn_client(Client& client) {
    for (int i = 0; i < kPacketsPerTurn; ++i) {
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        const Io io = receive_packet(client.socket, buffer_, sizeof buffer_, &bytes, &descriptors);
        if (io == Io::kAgain) return client.file || now_ns() - client.since_ns < kSilentLimitNs;
        if (io == Io::kClosed || !handle(client, bytes, descriptors)) return false;
    }
    return true;
}

// Service processes may not know yet that it is gone. Over TCP what they still get or put is carried out
// here, by addresses that UCX does not check: there must be something, only not the rank's memory.
void Agent::forget(Client& client) {
    for (const auto& [id, opening] : client.openings) network_->close_memory(opening);
    if (!client.file) return;
    for (Mapping& memory : client.memories) {
        mmap(memory.data(), memory.size(), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        left_.push_back(std::move(memory));
    }
    --ranks_now_;
}

void Agent::turn_clients() {
    accept_clients();
    std::vector<pollfd> gone;
    for (const auto& client : clients_) gone.push_back({client->process.get(), POLLIN, 0});
    poll(gone.data(), gone.size(), 0);
    size_t at = 0;
    std::erase_if(clients_, [&](const auto& client) {
        if (gone[at++].revents == 0 && turn_client(*client)) return false;
        forget(*client);
        return true;
    });
    nameless_ = false;
    for (const auto& client : clients_) nameless_ |= !client->file;
}

// `starter`: a pipe whose other end the starting rank holds as long as it may still connect.
int Agent::run(const Fd& starter) {
    const uint64_t give_up_ns = now_ns() + p_.limit_s * 2'000'000'000ull;
    for (;;) {
        int steps = 0;
        while (steps < kStepsPerTurn && network_->progress()) ++steps;
        const bool idle = steps < kStepsPerTurn && network_->arm();
        const bool looks = ranks_ever_ == 0 || nameless_;
        pollfd ready[] = {
            {network_->event_fd(), POLLIN, 0}, {clients_ready_.get(), POLLIN, 0}, {starter.get(), 0, 0}};
        // Once somebody has come, the starter is a rank like others.
        poll(ready, ranks_ever_ == 0 ? 3 : 2, !idle ? 0 : looks ? kLookMs : -1);
        if (ready[1].revents != 0 || looks) turn_clients();
        if (ranks_now_ != 0) continue;
        if (ranks_ever_ != 0 || ready[2].revents != 0 || now_ns() > give_up_ns) return 0;
    }
}

}  // namespace

int run_agent() {
    AgentParameters parameters;
    Starter starter;
    if (!starter.read_parameters(&parameters, sizeof parameters)) return 2;
    ServiceReady ready;
    Agent agent(parameters);
    ready.ok = agent.start(&ready);
    return starter.tell(ready, ready.ok ? agent.address() : std::span<const std::byte>{}) && ready.ok
               ? agent.run(starter.pipe())
               : 1;
}

}  // namespace longshore
