#include "service/node_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <utility>

#include "engine/mover.h"

namespace longshore {
namespace {

constexpr uint64_t kNamelessLimitNs = 2'000'000'000;  // a connection that does not say who it is
constexpr size_t kConnectionsMax = 4096;
constexpr uint32_t kGroupMembersMax = 1u << 20;
constexpr size_t kUntoldMax = 16;  // lines that wait for local rank 0

}  // namespace

struct NodeRanks::Client {
    uint64_t number = 0;
    Fd socket;
    Fd process;  // readable when the rank is gone: a forked child may keep the connection open
    pid_t pid = 0;
    uint64_t since_ns = 0;
    int local_rank = -1;  // -1: has not attached
    bool leaves = false;  // has said so
    std::vector<uint64_t> groups;
    // a group being told in pieces
    uint64_t joining = 0;
    std::vector<Member> members;
    uint32_t filled = 0;
};

NodeRanks::NodeRanks(const ServiceParameters& parameters, const NodeMemory& memory, GroupTable* groups,
                     AddressBook* book, Given given, Events events)
    : p_(parameters),
      memory_(memory),
      groups_(*groups),
      book_(*book),
      given_(std::move(given)),
      events_(std::move(events)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

NodeRanks::~NodeRanks() = default;

void NodeRanks::add(Fd socket) {
    auto client = std::make_unique<Client>();
    if (!peer_is_same_user(socket, &client->pid) || clients_.size() >= kConnectionsMax) return;
    client->socket = std::move(socket);
    client->since_ns = now_ns();
    client->number = numbers_ += 2;
    if (!watch(client->socket, client->number)) return;
    nameless_.push_back(client->number);
    clients_.emplace(client->number, std::move(client));
}

// The end of its process has the number after that of its socket.
bool NodeRanks::watch(const Fd& fd, uint64_t number) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
}

bool NodeRanks::reply(Client& client, const void* bytes, size_t count, std::span<const int> descriptors) {
    return send_packet(client.socket, bytes, count, descriptors) == Io::kOk;
}

void NodeRanks::tell_leader(const char* text) {
    ProblemReport report;
    report.header = {kControlMagic, ControlKind::kProblem};
    snprintf(report.text, sizeof report.text, "%s", text);
    for (const auto& [number, client] : clients_) {
        if (client->local_rank == 0)
            return static_cast<void>(send_packet(client->socket, &report, sizeof report));
    }
    if (!leader_came_ && untold_.size() < kUntoldMax) untold_.push_back(report.text);
}

std::vector<pid_t> NodeRanks::processes() const {
    std::vector<pid_t> ranks(p_.rank_count);
    for (const auto& [number, client] : clients_) {
        if (client->local_rank >= 0) ranks[static_cast<size_t>(client->local_rank)] = client->pid;
    }
    return ranks;
}

bool NodeRanks::attach(Client& client, const AttachRequest& request) {
    if (!same_token(request.token, given_.token) || request.local_rank >= p_.rank_count ||
        client.local_rank >= 0 || static_cast<pid_t>(request.pid) != client.pid)
        return false;
    RankSlot& slot = memory_.rank(LocalRank{static_cast<uint16_t>(request.local_rank)});
    if (slot.attached.load() != 0) return false;
    AttachAnswer answer;
    uint64_t value = 0;
    const iovec local{&value, sizeof value};
    const iovec remote{reinterpret_cast<void*>(request.probe_address), sizeof value};
    const bool read =
        process_vm_readv(static_cast<pid_t>(request.pid), &local, 1, &remote, 1, 0) == sizeof value;
    answer.probe_error = read ? (value == request.probe_value ? 0 : EFAULT) : errno;
    answer.ok = 1;
    answer.memory_bytes = given_.memory_bytes;
    answer.sight_bytes = given_.sight_bytes;
    answer.services = p_.service_count;
    slot.pid.store(request.pid);
    slot.attached.store(1);
    client.local_rank = static_cast<int>(request.local_rank);
    client.process = Fd(static_cast<int>(syscall(SYS_pidfd_open, client.pid, 0)));
    if (client.process) watch(client.process, client.number + 1);
    std::erase(nameless_, client.number);
    ++attached_ever_, ++attached_now_;
    if (attached_ever_ == p_.rank_count) events_.all_attached();
    if (!reply(client, &answer, sizeof answer, given_.descriptors)) return false;
    if (client.local_rank == 0) {
        leader_came_ = true;
        for (const std::string& text : std::exchange(untold_, {})) tell_leader(text.c_str());
    }
    return true;
}

bool NodeRanks::join_group(Client& client, const GroupJoinPiece& piece, size_t bytes) {
    if (piece.first == 0) {
        client.joining = piece.id;
        client.members.assign(std::min(piece.size, kGroupMembersMax), Member{});
        client.filled = 0;
    }
    if (piece.count > kMembersPerPiece || bytes != sizeof piece + piece.count * sizeof(Member) ||
        piece.id != client.joining || piece.first != client.filled || piece.size != client.members.size() ||
        piece.count > piece.size - piece.first)
        return false;
    if (piece.count != 0)
        memcpy(static_cast<void*>(client.members.data() + piece.first), buffer_ + sizeof piece,
               piece.count * sizeof(Member));
    client.filled += piece.count;
    if (client.filled < piece.size) return true;
    // Once: what a rank has joined is kept for it until it leaves.
    if (std::find(client.groups.begin(), client.groups.end(), piece.id) != client.groups.end()) return false;
    GroupJoinAnswer answer;
    GroupSlot slot;
    answer.id = piece.id;
    answer.ok = groups_.join(GroupId{piece.id}, client.members, &slot);
    answer.slot = slot.value;
    if (answer.ok) client.groups.push_back(piece.id);
    client.members.clear();
    client.joining = 0;
    return reply(client, &answer, sizeof answer);
}

bool NodeRanks::leave_group(Client& client, const GroupLeaveRequest& request) {
    const auto it = std::find(client.groups.begin(), client.groups.end(), request.id);
    if (it == client.groups.end()) return false;
    client.groups.erase(it);
    groups_.leave(GroupId{request.id});
    return true;
}

// Only to a rank's own process, which knows the token.
template <class Request, class Take>
void NodeRanks::hand_over(Client& client, size_t bytes, std::vector<Fd> descriptors, const Take& take) {
    Request request;
    if (bytes != sizeof request) return;
    memcpy(static_cast<void*>(&request), buffer_, sizeof request);
    const std::vector<pid_t> ranks = processes();
    if (!same_token(request.token, given_.token) || request.local_rank >= ranks.size() ||
        ranks[request.local_rank] != client.pid)
        return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
    take(std::move(client.socket), client.pid, request, std::move(descriptors));
}

// False: the connection is over, or is another's.
bool NodeRanks::handle(Client& client, size_t bytes, std::vector<Fd> descriptors) {
    const std::span<const std::byte> packet(buffer_, bytes);
    ControlHeader header;
    if (bytes < sizeof header) return false;
    memcpy(&header, buffer_, sizeof header);
    if (header.magic != kControlMagic) return false;
    if (header.kind == ControlKind::kAttach) {
        AttachRequest request;
        if (bytes != sizeof request) return false;
        memcpy(&request, buffer_, sizeof request);
        return attach(client, request);
    }
    if (client.local_rank < 0) {
        if (header.kind == ControlKind::kOpenPool)
            hand_over<tasks::OpenPool>(client, bytes, std::move(descriptors), events_.pool_opened);
        if (header.kind == ControlKind::kOpenQueue)
            hand_over<io::OpenQueue>(client, bytes, std::move(descriptors), events_.queue_opened);
        return false;
    }
    switch (header.kind) {
        case ControlKind::kAddressBook:
            if (client.local_rank != 0 || !book_.take(packet)) return false;
            events_.book_grows();
            return true;
        case ControlKind::kGroupJoin: {
            GroupJoinPiece piece;
            if (bytes < sizeof piece) return false;
            memcpy(&piece, buffer_, sizeof piece);
            return join_group(client, piece, bytes);
        }
        case ControlKind::kGroupLeave: {
            GroupLeaveRequest request;
            if (bytes != sizeof request) return false;
            memcpy(&request, buffer_, sizeof request);
            return leave_group(client, request);
        }
        case ControlKind::kDetach:
            client.leaves = true;
            return false;
        default:
            return false;
    }
}

void NodeRanks::forget(Client& client) {
    if (client.local_rank < 0) return;
    for (const uint64_t id : client.groups) groups_.leave(GroupId{id});
    const LocalRank local{static_cast<uint16_t>(client.local_rank)};
    memory_.rank(local).attached.store(0);
    --attached_now_;
    has_lost_ |= p_.host_agents != 0 && !client.leaves;
    // A stand-in of a DPU holds claims while its rank copies, and has nothing else that moves bytes: they are
    // for service processes now, which bring that rank's blocks like any others.
    WakeSet wake;
    if (p_.host_agents != 0) free_lost_claims(memory_, rank_worker(local), &wake);
    if (wake.any() && events_.claims_freed) events_.claims_freed(wake);
}

// False: the connection is over.
bool NodeRanks::turn_client(Client& client) {
    for (;;) {
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        const Io io = receive_packet(client.socket, buffer_, sizeof buffer_, &bytes, &descriptors);
        if (io == Io::kAgain) return true;
        if (io == Io::kClosed || !handle(client, bytes, std::move(descriptors))) return false;
    }
}

void NodeRanks::end(uint64_t number) {
    const auto at = clients_.find(number);
    std::erase(nameless_, number);
    forget(*at->second);
    clients_.erase(at);
}

void NodeRanks::take_event(uint64_t number) {
    const bool of_process = number % 2 != 0;
    const auto at = clients_.find(number - of_process);
    if (at == clients_.end()) return;               // it ended with another event
    const bool is_open = turn_client(*at->second);  // its last words, too
    if (of_process || !is_open) end(at->first);
}

void NodeRanks::look_at_nameless() {
    const uint64_t now = now_ns();
    const std::vector<uint64_t> all = nameless_;
    for (const uint64_t number : all) {
        if (now - clients_.at(number)->since_ns >= kNamelessLimitNs) end(number);
    }
}

void NodeRanks::turn() {
    constexpr int kEventsPerTurn = 64;
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) take_event(events[i].data.u64);
    look_at_nameless();
}

}  // namespace longshore
