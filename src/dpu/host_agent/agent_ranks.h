// The ranks of a machine as its agent hears them: each connection says hello with the memory file of its
// heap, then which pieces of it are to be open to the network. Everything that a rank says is checked here;
// whoever does not keep to the protocol is disconnected. An answer that a rank's socket does not take waits
// here, and nothing more is heard of that rank until the answer is sent. One thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dpu/host_agent/agent_copier.h"
#include "dpu/host_agent/agent_heap.h"
#include "fabric/shm/packet_queue.h"
#include "tasks/control.h"

namespace longshore {

class AgentRanks : private RankHeaps {
  public:
    // Has the agent woken by these events (of epoll) of a descriptor, in place of earlier ones, until that is
    // closed. False: it cannot be.
    using Watch = std::function<bool(const Fd&, uint32_t events)>;
    // A rank wants tasks to be run. May be empty: nobody does.
    using PoolOpened = std::function<void(Fd socket, pid_t pid, const tasks::OpenPool& request,
                                          std::vector<Fd> descriptors)>;
    // Begins to copy for a rank of the job; null: not on this machine. May be empty.
    using StartCopier =
        std::function<std::unique_ptr<AgentCopier>(uint32_t rank, const std::vector<pid_t>& all)>;
    AgentRanks(MemoryAgent* network, const Token& token, Watch watch, PoolOpened pool_opened = {},
               StartCopier start_copier = {})
        : network_(*network),
          token_(token),
          watch_(std::move(watch)),
          pool_opened_(std::move(pool_opened)),
          start_copier_(std::move(start_copier)) {}
    // The network has gone before: whoever still reads finds the ranks' memory until then.
    ~AgentRanks() override = default;

    // A connection, of another user perhaps: then it is closed.
    void add(Fd socket);
    // Hears all connections, and forgets those whose rank has gone.
    void turn();

    // Some have something to copy; turn() does a piece of it.
    bool has_copies() const { return copies_; }
    size_t connections() const { return clients_.size(); }
    // Some have not said hello, or wait for what others do: not for long.
    bool has_impatient() const { return impatient_; }
    uint32_t ever() const { return ever_; }  // ranks that have said hello
    uint32_t now() const { return now_; }

  private:
    struct Client {
        Fd socket;
        pid_t pid = 0;
        PacketQueue unsent;   // answers, one but for that to kCopies
        uint32_t events = 0;  // of its socket that are watched
        Fd process;           // readable when the rank is gone: a forked child may keep the connection open
        uint64_t since_ns = 0;
        std::unique_ptr<AgentHeap> heap;  // once it has said hello
        // Once it has said which rank it is.
        AgentCopies said;
        bool has_said = false;
        uint64_t answer_until_ns = 0;  // 0: it was answered
        std::unique_ptr<AgentCopier> copier;
    };
    bool turn_client(Client& client);
    bool handle(Client& client, size_t bytes, std::vector<Fd>& descriptors);
    void hand_over(Client& client, size_t bytes, std::vector<Fd> descriptors);
    bool greet(Client& client, const AgentHello& hello, std::vector<Fd>& descriptors);
    bool open(Client& client, const AgentOpen& request);
    static void reply(Client& client, AgentAnswer answer, std::span<const std::byte> key = {},
                      std::span<const std::byte> exported = {});
    bool begin_copies(Client& client, const AgentCopies& said);
    static void reply_done(Client& client) { reply(client, AgentAnswer{.ok = 1}); }
    void arm(Client& client) const;
    void turn_copies();
    Client* find_rank(uint32_t rank);
    // RankHeaps
    std::byte* find(uint32_t rank, uint64_t offset, uint64_t bytes) override;
    bool holds(uint32_t rank) override;
    void forget(Client& client);

    MemoryAgent& network_;
    const Token token_;
    Watch watch_;
    PoolOpened pool_opened_;
    StartCopier start_copier_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<std::unique_ptr<AgentHeap>> left_;  // of ranks that have gone
    uint32_t ever_ = 0, now_ = 0;
    bool impatient_ = false, copies_ = false;
    alignas(8) std::byte buffer_[std::max(kAgentPacketBytesMax, sizeof(tasks::OpenPool))];
};

}  // namespace longshore
