// The task processes of a node, as its supervisor keeps them: a pool for each plug-in, whose processes are
// started when the first rank that they serve opens it, started again when they are lost, and ended with the
// job. Where a pool runs on another node, its processes here are carriers (carrier.h), one for each there.
// Ranks have a connection for each pool that they have open. Runs no task and waits for nobody: what is said
// to a process that runs a long task, or to a rank, waits here where their sockets do not take it. One
// thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/shm/packet_queue.h"
#include "tasks/control.h"

namespace longshore::tasks {

// "signal 11, Segmentation fault", "exit status 1".
std::string describe_end(int status);

// Where a task process runs: on any of these CPUs; none: wherever the system puts it.
struct TaskPlace {
    std::vector<int> cpus;
    bool may_spin = false;  // nobody else needs them
};

class TaskPools {
  public:
    struct Node {
        uint16_t node = 0, rank_count = 1;
        uint32_t spin_us = 0;
        uint32_t restarts_max = 0;  // of each pool's processes together
        std::string program;        // longshored
        // For so many processes of so many threads each, by what the user says of cores. Empty, with the
        // reason: impossible.
        std::function<std::vector<TaskPlace>(const char* cores, uint32_t processes, uint32_t threads,
                                             std::string* error)>
            place;
        // Whether they run on another node, by what the user says. False, with the reason: impossible. May be
        // null: they never do.
        std::function<bool(const char* node, FarNode* far, std::string* error)> find_node;
        std::function<void(const char*)> tell;  // a line for the user
    };
    explicit TaskPools(Node node);
    ~TaskPools();

    // Readable when there is something to do; -1: it cannot be waited for.
    int fd() const { return epoll_.get(); }
    void turn();
    // A rank's connection, whose first packet was this.
    void open(Fd socket, pid_t pid, const OpenPool& request, std::vector<Fd> descriptors);
    // Whether the child that ended was a task process.
    bool reap(pid_t pid, int status);
    // Ends all task processes.
    void stop();

  private:
    struct Process;
    struct Pool;
    struct Client;
    Pool* find_pool(const OpenPool& request, int stderr_fd, std::string* error);
    bool start(Pool& pool, Process& process);
    void serve(Client& client, uint32_t index);
    void answer(Client& client, int32_t error, const std::string& text);
    void refuse(Fd& socket, int32_t error, const std::string& text);
    void turn_client(uint64_t number);
    void turn_process(Process& process);
    void hear_loaded(Process& process, const PluginLoaded& message);
    void hear_served(Process& process, const RankServed& message);
    void hear_left(Process& process, uint64_t client);
    void forget(uint64_t client);
    void lose(Process& process, const std::string& how);
    Client* find_client(uint64_t number);
    bool watch(const Fd& fd, uint64_t number) const;
    void arm(const Fd& socket, const PacketQueue& unsent, uint64_t number) const;
    template <class Message>
    bool tell(Process& process, const Message& message, std::span<const int> descriptors = {}) const;

    const Node node_;
    Fd epoll_;
    std::vector<std::unique_ptr<Pool>> pools_;
    std::map<uint64_t, std::unique_ptr<Client>> clients_;
    std::map<uint64_t, Process*> processes_;  // by number
    uint64_t numbers_ = 0;                    // of clients and processes: none is used twice
    alignas(8) std::byte buffer_[kControlBytesMax];
};

}  // namespace longshore::tasks
