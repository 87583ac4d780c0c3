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
#include "fabric/shm/packet_queue.h"

namespace longshore {
namespace {

constexpr uint64_t kNamelessLimitNs = 2'000'000'000;  // a connection that does not say who it is
constexpr size_t kConnectionsMax = 4096;
constexpr uint32_t kGroupMembersMax = 1u << 20;

}  // namespace

struct NodeRanks::Client {
    uint64_t number = 0;
    Fd socket;
    Fd process;  // readable when the rank is gone: a forked child may keep the connection open
    pid_t pid = 0;
    uint64_t since_ns = 0;
    int local_rank = -1;  // -1: has not attached
    PacketQueue unsent;   // an answer
    uint32_t events = 0;  // of its socket that are waited for
    std::vector<uint64_t> groups;
    // a group being told in pieces
    uint64_t joining = 0;
    std::vector<Member> members;
    uint32_t filled = 0;
    bool asks = false;  // all of it is told, and there was no room

    bool is_heard() const { return unsent.empty() && !asks; }
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
    client->since_ns = awake_ns();
    client->number = numbers_ += 2;
    if (!watch(client->socket, client->number)) return;
    client->events = EPOLLIN;
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

// After anything that changes what the client's socket is waited for: more of it, or room in it.
void NodeRanks::arm(Client& client) const {
    const bool has_more = !client.unsent.empty() || (client.local_rank == 0 && !lines_.empty());
    epoll_event event{};
    event.events = (client.is_heard() ? EPOLLIN : 0u) | (has_more ? EPOLLOUT : 0u);
    event.data.u64 = client.number;
    if (event.events == client.events) return;
    client.events = event.events;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event);
}

// Whether the rank is there still is not seen by this: the end of its connection or of its process tells.
template <class Answer>
void NodeRanks::reply(Client& client, const Answer& answer, std::span<const int> descriptors) {
    client.unsent.send_message(client.socket, answer, descriptors);
}

NodeRanks::Client* NodeRanks::leader() const {
    for (const auto& [number, client] : clients_)
        if (client->local_rank == 0) return client.get();
    return nullptr;
}

void NodeRanks::tell_leader(const char* text) {
    if (leader_came_ && leader() == nullptr) return;
    // What comes after lines that are left out is not told before that.
    if (lines_.size() == kLinesMax || lines_left_out_ != 0)
        ++lines_left_out_;
    else
        lines_.emplace_back(text);
    send_lines();
}

void NodeRanks::send_lines() {
    Client* const to = leader();
    if (to == nullptr) return;
    while (to->unsent.empty() && !lines_.empty()) {
        ProblemReport report;
        snprintf(report.text, sizeof report.text, "%s", lines_.front().c_str());
        if (send_packet(to->socket, &report, sizeof report) == Io::kAgain) break;
        lines_.pop_front();
        if (lines_.empty() && lines_left_out_ != 0)
            lines_.push_back(std::to_string(std::exchange(lines_left_out_, 0)) +
                             " more lines came while this rank read none, and are left out");
    }
    arm(*to);
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
    slot.attached.store(kRankAttached);
    client.local_rank = static_cast<int>(request.local_rank);
    client.process = Fd(static_cast<int>(syscall(SYS_pidfd_open, client.pid, 0)));
    if (client.process) watch(client.process, client.number + 1);
    std::erase(nameless_, client.number);
    ++attached_ever_, ++attached_now_;
    if (attached_ever_ == p_.rank_count) events_.all_attached();
    reply(client, answer, given_.descriptors);
    leader_came_ |= client.local_rank == 0;
    send_lines();
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
    answer_join(client, true);
    return true;
}

// Where there is no room, the client asks again once all that ranks have said by now is heard, and as long as
// service processes may still look at groups that have gone.
void NodeRanks::answer_join(Client& client, bool may_ask_again) {
    GroupJoinAnswer answer;
    GroupSlot slot;
    answer.id = client.joining;
    answer.result = groups_.join(GroupId{client.joining}, client.members, &slot);
    answer.slot = slot.value;
    client.asks = (may_ask_again || groups_.waits_for_services()) &&
                  (answer.result == JoinResult::kTableFull || answer.result == JoinResult::kMemoryFull);
    if (client.asks) return;
    if (answer.result == JoinResult::kOk) client.groups.push_back(client.joining);
    client.members.clear();
    client.joining = 0;
    reply(client, answer);
}

bool NodeRanks::has_asking() const {
    return std::any_of(clients_.begin(), clients_.end(), [](const auto& at) { return at.second->asks; });
}

// Members of a group tell each other that they have left their earlier ones before any of them joins it: what
// they have said of that has come, and may be unread.
void NodeRanks::answer_waiting_joins() {
    if (!has_asking()) return;
    std::vector<uint64_t> all;
    for (const auto& [number, client] : clients_) all.push_back(number);
    for (const uint64_t number : all) hear(number, false);
    for (const auto& [number, client] : clients_) {
        if (!client->asks) continue;
        answer_join(*client, false);
        arm(*client);
    }
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
        default:
            return false;
    }
}

void NodeRanks::forget(Client& client) {
    if (client.local_rank < 0) return;
    for (const uint64_t id : client.groups) groups_.leave(GroupId{id});
    const LocalRank local{static_cast<uint16_t>(client.local_rank)};
    const bool has_left = memory_.rank(local).attached.exchange(0) == kRankLeaves;
    --attached_now_;
    if (client.local_rank == 0) lines_.clear(), lines_left_out_ = 0;
    has_lost_ |= p_.host_agents != 0 && !has_left;
    // A stand-in of a DPU holds claims while its rank copies, and has nothing else that moves bytes: they are
    // for service processes now, which bring that rank's blocks like any others.
    WakeSet wake;
    if (p_.host_agents != 0) free_lost_claims(memory_, rank_worker(local), &wake);
    if (wake.any() && events_.claims_freed) events_.claims_freed(wake);
}

// False: the connection is over.
bool NodeRanks::turn_client(Client& client) {
    client.unsent.flush(client.socket);
    while (client.is_heard()) {
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        const Io io = receive_packet(client.socket, buffer_, sizeof buffer_, &bytes, &descriptors);
        if (io == Io::kAgain) return true;
        if (io == Io::kClosed || !handle(client, bytes, std::move(descriptors))) return false;
    }
    return true;
}

void NodeRanks::end(uint64_t number) {
    const auto at = clients_.find(number);
    std::erase(nameless_, number);
    forget(*at->second);
    clients_.erase(at);
}

// `is_over`: its process or its connection is gone.
void NodeRanks::hear(uint64_t number, bool is_over) {
    const auto at = clients_.find(number);
    if (at == clients_.end()) return;  // it ended with another event
    Client& client = *at->second;
    const bool is_open = turn_client(client);  // its last words, too
    if (is_over || !is_open) return end(number);
    if (client.local_rank == 0) send_lines();
    arm(client);
}

void NodeRanks::look_at_nameless() {
    const uint64_t now = awake_ns();
    const std::vector<uint64_t> all = nameless_;
    for (const uint64_t number : all) {
        if (now - clients_.at(number)->since_ns >= kNamelessLimitNs) end(number);
    }
}

void NodeRanks::turn() {
    constexpr int kEventsPerTurn = 64;
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) {
        const bool of_process = events[i].data.u64 % 2 != 0;
        const bool is_over = of_process || (events[i].events & EPOLLHUP) != 0;
        hear(events[i].data.u64 - of_process, is_over);
    }
    answer_waiting_joins();
    look_at_nameless();
}

}  // namespace longshore
