#include "dpu/host_agent/agent_ranks.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "dpu/transport/host_region.h"

namespace longshore {
namespace {

constexpr uint64_t kSilentLimitNs = 2'000'000'000;  // a connection that does not say who it is
constexpr size_t kAgentConnectionsMax = 4096;
constexpr uint32_t kAgentRanksMax = 4096;  // ever: the place of each one's memory is kept
constexpr int kPacketsPerTurn = 64;

}  // namespace

void AgentRanks::add(Fd socket) {
    auto client = std::make_unique<Client>();
    pid_t pid = 0;
    if (!peer_is_same_user(socket, &pid) || clients_.size() >= kAgentConnectionsMax ||
        !watch_(socket, client->events = EPOLLIN))
        return;
    client->socket = std::move(socket);
    client->pid = pid;
    client->process = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (client->process) watch_(client->process, EPOLLIN);
    client->since_ns = awake_ns();
    clients_.push_back(std::move(client));
}

// Room in the socket, where an answer waits for it.
void AgentRanks::arm(Client& client) const {
    const uint32_t events = client.unsent.empty() ? EPOLLIN : EPOLLOUT;
    if (events != std::exchange(client.events, events)) watch_(client.socket, events);
}

// Whether the rank is there still is not seen by this: the end of its connection or of its process tells.
void AgentRanks::reply(Client& client, AgentAnswer answer, std::span<const std::byte> key,
                       std::span<const std::byte> exported) {
    answer.key_bytes = static_cast<uint32_t>(key.size());
    answer.exported_bytes = static_cast<uint32_t>(exported.size());
    std::vector<std::byte> packet(sizeof answer + key.size() + exported.size());
    memcpy(packet.data(), &answer, sizeof answer);
    std::copy(key.begin(), key.end(), packet.begin() + sizeof answer);
    std::copy(exported.begin(), exported.end(), packet.end() - static_cast<ptrdiff_t>(exported.size()));
    client.unsent.send(client.socket, packet);
}

bool AgentRanks::greet(Client& client, const AgentHello& hello, std::vector<Fd>& descriptors) {
    if (client.heap || !same_token(hello.token, token_)) return false;
    AgentAnswer answer;
    const auto refuse = [&](const std::string& why) {
        why.copy(answer.reason, sizeof answer.reason - 1);
        reply(client, answer);
        return false;
    };
    if (descriptors.size() != 1 || !is_memory_file(descriptors[0].get(), 0, nullptr))
        return refuse("what a rank gives is no shared memory that stays as large as it is");
    if (ever_ == kAgentRanksMax) return refuse("more ranks than an agent has room for");
    client.heap = std::make_unique<AgentHeap>(&network_, std::move(descriptors[0]));
    ++ever_, ++now_;
    reply_done(client);
    return true;
}

bool AgentRanks::open(Client& client, const AgentOpen& request) {
    if (!client.heap->may_open(request)) return false;
    AgentAnswer answer;
    answer.id = request.id;
    AgentHeap::Keys keys;
    std::string error;
    answer.ok = client.heap->open(request, &keys, &error);
    answer.address = keys.address;
    if (!answer.ok) error.copy(answer.reason, sizeof answer.reason - 1);
    answer.ok ? reply(client, answer, keys.key, keys.exported) : reply(client, answer);
    return true;
}

// --- copies for ranks that compute

AgentRanks::Client* AgentRanks::find_rank(uint32_t rank) {
    const auto found = std::find_if(clients_.begin(), clients_.end(),
                                    [&](const auto& c) { return c && c->has_said && c->said.rank == rank; });
    return found != clients_.end() ? found->get() : nullptr;
}

std::byte* AgentRanks::find(uint32_t rank, uint64_t offset, uint64_t bytes) {
    Client* const client = find_rank(rank);
    return client != nullptr && client->heap->has(offset, bytes) ? client->heap->find(offset, bytes).data()
                                                                 : nullptr;
}

bool AgentRanks::holds(uint32_t rank) {
    const Client* const client = find_rank(rank);
    if (client == nullptr) return false;
    // After the bytes, as in dpu/rank/far_neighbours.cc.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    uint64_t word = 0;
    const iovec here{&word, sizeof word};
    const iovec there{reinterpret_cast<void*>(client->said.word_address), sizeof word};
    return process_vm_readv(client->pid, &here, 1, &there, 1, 0) == sizeof word && word == client->said.word;
}

// One whose memory says nothing of itself is neither copied from nor for.
bool AgentRanks::begin_copies(Client& client, const AgentCopies& said) {
    if (client.has_said || said.word == 0 || find_rank(said.rank) != nullptr) return false;
    client.said = said;
    client.has_said = true;
    client.answer_until_ns = awake_ns() + kSilentLimitNs;
    if (said.copies == 0 || !start_copier_ || !holds(said.rank)) return true;
    std::vector<pid_t> all;
    for (const auto& other : clients_)
        if (other && other->heap) all.push_back(other->pid);
    client.copier = start_copier_(said.rank, all);
    return true;
}

void AgentRanks::turn_copies() {
    copies_ = false;
    for (const auto& client : clients_) {
        if (client->copier && !client->copier->turn(*this)) client->copier.reset();
        copies_ |= client->copier && client->copier->has_work();
        if (client->answer_until_ns == 0) continue;
        if (client->copier && !client->copier->is_welcome() && awake_ns() < client->answer_until_ns) continue;
        client->answer_until_ns = 0;
        reply_done(*client);
    }
}

// A connection of its own, of a process that has said hello on another.
void AgentRanks::hand_over(Client& client, size_t bytes, std::vector<Fd> descriptors) {
    tasks::OpenPool request;
    if (bytes != sizeof request || client.heap || !pool_opened_) return;
    memcpy(static_cast<void*>(&request), buffer_, sizeof request);
    const bool is_rank = std::any_of(clients_.begin(), clients_.end(), [&](const auto& other) {
        return other && other->heap && other->pid == client.pid;
    });
    if (is_rank && same_token(request.token, token_))
        pool_opened_(std::move(client.socket), client.pid, request, std::move(descriptors));
}

// False: the connection is over, or is another's.
bool AgentRanks::handle(Client& client, size_t bytes, std::vector<Fd>& descriptors) {
    const auto take = [&](auto* packet) {
        if (bytes != sizeof *packet) return false;
        memcpy(static_cast<void*>(packet), buffer_, sizeof *packet);
        return true;
    };
    AgentHeader header;
    if (bytes < sizeof header) return false;
    memcpy(&header, buffer_, sizeof header);
    if (header.magic != kControlMagic) return false;
    if (header.kind == AgentKind{static_cast<uint32_t>(ControlKind::kOpenPool)}) {
        hand_over(client, bytes, std::move(descriptors));
        return false;
    }
    if (header.kind == AgentKind::kHello) {
        AgentHello hello;
        return take(&hello) && greet(client, hello, descriptors);
    }
    if (!client.heap || !descriptors.empty()) return false;
    if (header.kind == AgentKind::kOpen) {
        AgentOpen request;
        return take(&request) && open(client, request);
    }
    if (header.kind == AgentKind::kCopies) {
        AgentCopies said;
        return take(&said) && begin_copies(client, said);
    }
    if (header.kind == AgentKind::kStopCopies) {
        AgentStopCopies stop;
        if (!take(&stop)) return false;
        client.copier.reset();
        reply_done(client);
        return true;
    }
    if (header.kind == AgentKind::kWithdraw) {
        AgentWithdraw words;
        if (!take(&words)) return false;
        client.copier.reset();
        AgentAnswer answer;
        answer.ok = client.heap->withdraw();
        reply(client, answer);
        return true;
    }
    if (header.kind == AgentKind::kLeave) {
        AgentLeave words;
        if (!take(&words)) return false;
        client.heap->leave();
        return true;
    }
    AgentClose request;
    return header.kind == AgentKind::kClose && take(&request) && client.heap->close(request.id);
}

bool AgentRanks::turn_client(Client& client) {
    client.unsent.flush(client.socket);
    for (int i = 0; i < kPacketsPerTurn && client.unsent.empty(); ++i) {
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        const Io io = receive_packet(client.socket, buffer_, sizeof buffer_, &bytes, &descriptors);
        if (io == Io::kAgain) return client.heap || awake_ns() - client.since_ns < kSilentLimitNs;
        if (io == Io::kClosed || !handle(client, bytes, descriptors)) return false;
    }
    return true;
}

// Service processes may not know yet that it is gone.
void AgentRanks::forget(Client& client) {
    client.copier.reset();
    if (!client.heap) return;
    client.heap->end();
    left_.push_back(std::move(client.heap));
    --now_;
}

void AgentRanks::turn() {
    std::vector<pollfd> gone;
    for (const auto& client : clients_) gone.push_back({client->process.get(), POLLIN, 0});
    poll(gone.data(), gone.size(), 0);
    // Nobody is moved before all have been heard: a pool is for who is a rank on another connection. The
    // place of who has gone is empty until then.
    for (size_t i = 0; i < gone.size(); ++i) {
        if (gone[i].revents == 0 && turn_client(*clients_[i])) continue;
        forget(*clients_[i]);
        clients_[i].reset();
    }
    std::erase(clients_, nullptr);
    turn_copies();
    for (const auto& client : clients_) arm(*client);
    impatient_ = std::any_of(clients_.begin(), clients_.end(),
                             [](const auto& c) { return !c->heap || c->answer_until_ns != 0; });
}

}  // namespace longshore
