#include "tasks/pools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>

#include "fabric/shm/child.h"
#include "fabric/shm/doorbell.h"

namespace longshore::tasks {
namespace {

constexpr size_t kClientsMax = 4096;
constexpr size_t kUnheardMax = kClientsMax;  // what waits for a process, beyond which it gets no more ranks

// NAME=VALUE and a zero byte, one after the other.
std::vector<std::string> split_environment(const OpenPool& request) {
    std::vector<std::string> all;
    const size_t bytes = std::min<size_t>(request.environment_bytes, kEnvironmentBytesMax);
    for (size_t at = 0; at < bytes;) {
        all.emplace_back(request.environment + at, strnlen(request.environment + at, bytes - at));
        at += all.back().size() + 1;
    }
    return all;
}

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::string name_of(const FarNode& far) {
    if (far.is_dpu != 0) return "the DPU at " + std::string(far.dpu, strnlen(far.dpu, sizeof far.dpu));
    const char* const host = far.to.address.host;
    return "node " + std::to_string(far.to.node.value) + " (" +
           std::string(host, strnlen(host, sizeof far.to.address.host)) + ")";
}

std::string describe_end(int status) {
    return WIFSIGNALED(status) ? std::string("signal ") + std::to_string(WTERMSIG(status)) + ", " +
                                     strsignal(WTERMSIG(status))
                               : "exit status " + std::to_string(WEXITSTATUS(status));
}

struct TaskPools::Process {
    uint64_t number = 0;
    uint32_t index = 0;  // in its pool
    Pool* pool = nullptr;
    pid_t pid = 0;
    Fd control, doorbell;
    PacketQueue unsent;
    int32_t refused = 0;  // an error: the plug-in cannot be used, for the reason
    std::string why;
    std::string given_up;  // not empty: it is not started again, and why
};

struct TaskPools::Pool {
    std::string path, directory;
    std::vector<std::string> environment;
    Fd errors;  // where the plug-in's stderr goes
    std::vector<TaskPlace> places;
    FarNode far;
    std::string cores;  // for the processes of another node, as the user says
    uint32_t threads = 1;
    std::vector<Process> processes;
    uint32_t restarts = 0;
    bool was_loaded = false;  // by any of its processes: the plug-in can be used
    PluginTable table;
};

// A rank's connection, from the first packet on.
struct TaskPools::Client {
    uint64_t number = 0;
    PacketQueue unsent;  // the answer
    Fd socket, process;  // process: readable when the rank is gone, whose children may keep the socket open
    pid_t pid = 0;
    Pool* pool = nullptr;
    SharedHeap heap;
    Fd heap_file;
    struct Share {
        Process* process = nullptr;
        Fd file;
        Mapping mapping;
        Queue* queue = nullptr;
        bool asked = false, served = false, left = false;
    };
    std::vector<Share> shares;
    bool answered = false, closing = false;
};

TaskPools::TaskPools(Node node) : node_(std::move(node)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

TaskPools::~TaskPools() {
    stop();
}

bool TaskPools::watch(const Fd& fd, uint64_t number) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
}

// Is woken when there is room for what waits, too.
void TaskPools::arm(const Fd& socket, const PacketQueue& unsent, uint64_t number) const {
    epoll_event event{};
    event.events = unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
    event.data.u64 = number;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event);
}

TaskPools::Client* TaskPools::find_client(uint64_t number) {
    const auto at = clients_.find(number);
    return at == clients_.end() ? nullptr : at->second.get();
}

// --- a rank opens a pool

void TaskPools::refuse(Fd& socket, int32_t error, const std::string& text) {
    PoolOpened answer;
    answer.error = error;
    snprintf(answer.text, sizeof answer.text, "%s", text.c_str());
    send_packet(socket, &answer, sizeof answer);  // the first: there is room
}

// That of the plug-in, made by whoever opens it first, as that rank would have it.
TaskPools::Pool* TaskPools::find_pool(const OpenPool& request, int stderr_fd, std::string* error) {
    const std::string path(request.plugin, strnlen(request.plugin, kPathBytes - 1));
    for (const auto& pool : pools_) {
        if (pool->path == path) return pool.get();
    }
    auto pool = std::make_unique<Pool>();
    pool->path = path;
    pool->directory.assign(request.directory, strnlen(request.directory, kPathBytes - 1));
    pool->environment = split_environment(request);
    if (stderr_fd >= 0) pool->errors = Fd(fcntl(stderr_fd, F_DUPFD_CLOEXEC, 0));
    const uint32_t count =
        std::min(request.processes != 0 ? request.processes : uint32_t{node_.rank_count}, kProcessesMax);
    pool->cores.assign(request.cores, strnlen(request.cores, sizeof request.cores - 1));
    pool->threads = std::clamp<uint32_t>(request.threads, 1, kThreadsMax);
    const std::string node(request.node, strnlen(request.node, sizeof request.node));
    if (node_.find_node && !node_.find_node(node.c_str(), &pool->far, error)) return nullptr;
    // A carrier sleeps whenever it has nothing to move.
    pool->places = pool->far.is_far != 0 ? std::vector<TaskPlace>(count)
                                         : node_.place(pool->cores.c_str(), count, pool->threads, error);
    if (pool->places.size() != count) return nullptr;
    pool->processes.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
        Process& process = pool->processes[i];
        process.index = i;
        process.pool = pool.get();
        process.number = ++numbers_;
        processes_[process.number] = &process;
    }
    pools_.push_back(std::move(pool));
    return pools_.back().get();
}

void TaskPools::open(Fd socket, pid_t pid, const OpenPool& request, std::vector<Fd> descriptors) {
    const size_t with_heap = request.has_heap != 0, with_errors = request.has_stderr != 0;
    if (descriptors.size() != with_heap + with_errors || request.local_rank >= node_.rank_count ||
        clients_.size() >= kClientsMax)
        return refuse(socket, LONGSHORE_ERR_NO_PROCESS, "the supervisor has no place for another pool");
    std::string error;
    Pool* const pool = find_pool(request, with_errors != 0 ? descriptors[with_heap].get() : -1, &error);
    if (pool == nullptr) return refuse(socket, LONGSHORE_ERR_NO_PROCESS, error);
    auto client = std::make_unique<Client>();
    client->number = ++numbers_;
    client->socket = std::move(socket);
    client->pid = pid;
    client->pool = pool;
    client->heap = request.heap;
    if (with_heap != 0) client->heap_file = std::move(descriptors[0]);
    client->process = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // Neighbours share a process; with more processes than ranks each rank has several.
    const auto count = static_cast<uint32_t>(pool->processes.size());
    const uint32_t rank = request.local_rank, ranks = node_.rank_count;
    const uint32_t first = rank * count / ranks;
    const uint32_t end = std::max(first + 1, (rank + 1) * count / ranks);
    client->shares.resize(std::min(end - first, kProcessesPerRankMax));
    if (!watch(client->socket, client->number) || !client->process || !watch(client->process, client->number))
        return refuse(client->socket, LONGSHORE_ERR_NO_PROCESS, "the supervisor has no descriptors left");
    Client& made = *client;
    clients_[made.number] = std::move(client);
    for (uint32_t i = 0; i < made.shares.size(); ++i) {
        Client::Share& share = made.shares[i];
        share.process = &pool->processes[first + i];
        share.file = make_queue_file();
        share.queue = share.file ? map_queue(share.file, &share.mapping) : nullptr;
        if (share.queue == nullptr)
            return answer(made, LONGSHORE_ERR_NO_PROCESS, "no memory for a queue of tasks");
        if (!share.process->given_up.empty())
            return answer(made, LONGSHORE_ERR_NO_PROCESS, share.process->given_up);
        if (share.process->refused != 0) return answer(made, share.process->refused, share.process->why);
        if (share.process->unsent.size() >= kUnheardMax)
            return answer(made, LONGSHORE_ERR_NO_PROCESS,
                          "a task process has not heard of thousands of ranks and pools for long");
        if (share.process->pid == 0 && !start(*pool, *share.process))
            return answer(made, LONGSHORE_ERR_NO_PROCESS,
                          std::string("no task process can be started: ") + strerror(errno));
        serve(made, i);
    }
}

// What the rank is told, once; after an error there is nothing more to be said.
void TaskPools::answer(Client& client, int32_t error, const std::string& text) {
    if (client.answered) return;
    client.answered = true;
    if (error != 0) {
        refuse(client.socket, error, text);
        return forget(client.number);
    }
    PoolOpened message;
    message.processes = static_cast<uint32_t>(client.shares.size());
    message.table = client.pool->table;
    std::vector<int> descriptors;
    for (const Client::Share& share : client.shares) descriptors.push_back(share.file.get());
    for (const Client::Share& share : client.shares) {
        descriptors.push_back(share.process->doorbell.get());
        message.may_spin |= client.pool->places[share.process->index].may_spin ? 1 : 0;
    }
    // More descriptors may be on their way to ranks than the system has room for.
    if (!client.unsent.send_message(client.socket, message, descriptors)) return forget(client.number);
    arm(client.socket, client.unsent, client.number);
}

// --- task processes

// At once, or when it reads. False: it has ended, or no descriptor is left.
template <class Message>
bool TaskPools::tell(Process& process, const Message& message, std::span<const int> descriptors) const {
    if (!process.control || !process.unsent.send_message(process.control, message, descriptors)) return false;
    arm(process.control, process.unsent, process.number);
    return true;
}

bool TaskPools::start(Pool& pool, Process& process) {
    // The same for all its lives: ranks have it.
    if (!process.doorbell) process.doorbell = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!process.doorbell) return false;
    std::vector<char*> environment;
    for (std::string& variable : pool.environment) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string name = base_name(pool.path), index = std::to_string(process.index),
                node = std::to_string(node_.node);
    char program[] = "longshored:", node_word[] = "node";
    std::string role = pool.far.is_far != 0 ? "carrier" : "task";
    char* const arguments[] = {program,   role.data(), name.data(), index.data(),
                               node_word, node.data(), nullptr};
    Child child = start_child(node_.program.c_str(), arguments, environment.data(),
                              CpuMask(pool.places[process.index].cpus));
    if (child.pid < 0) return false;
    process.pid = child.pid;
    process.refused = 0;
    process.control = std::move(child.control);
    process.unsent.clear();
    StartTasks message;
    message.has_stderr = pool.errors ? 1 : 0;
    message.spin_us = pool.places[process.index].may_spin ? node_.spin_us : 0;
    snprintf(message.plugin, sizeof message.plugin, "%s", pool.path.c_str());
    snprintf(message.directory, sizeof message.directory, "%s", pool.directory.c_str());
    message.far = pool.far;
    message.threads = pool.threads;
    message.processes = static_cast<uint32_t>(pool.processes.size());
    message.index = process.index;
    snprintf(message.cores, sizeof message.cores, "%s", pool.cores.c_str());
    std::vector<int> give{process.doorbell.get()};
    if (pool.errors) give.push_back(pool.errors.get());
    if (!watch(process.control, process.number) || !tell(process, message, give)) {
        kill(process.pid, SIGKILL);  // its end is heard of
        return false;
    }
    return true;
}

// A process that has just ended, or cannot be told and is ended, has a successor that is asked.
void TaskPools::serve(Client& client, uint32_t index) {
    Client::Share& share = client.shares[index];
    ServeRank message;
    message.client = client.number;
    message.pid = static_cast<uint32_t>(client.pid);
    message.has_heap = client.heap_file ? 1 : 0;
    message.heap = client.heap;
    std::vector<int> give{share.file.get()};
    if (client.heap_file) give.push_back(client.heap_file.get());
    share.asked = tell(*share.process, message, give);
    if (!share.asked && share.process->pid > 0) kill(share.process->pid, SIGKILL);
}

void TaskPools::hear_loaded(Process& process, const PluginLoaded& message) {
    if (message.error == 0) {
        process.pool->was_loaded = true;
        process.pool->table = message.table;
        process.pool->table.functions_count = std::min(message.table.functions_count, kFunctionsMax);
        return;
    }
    // All who wait for it hear why; who comes later tries anew, since the file may be another then.
    kill(process.pid, SIGKILL);
    process.refused = message.error;
    process.why.assign(message.text, strnlen(message.text, sizeof message.text));
    std::vector<uint64_t> waiting;
    for (const auto& [number, client] : clients_) {
        if (client->pool == process.pool && !client->answered) waiting.push_back(number);
    }
    for (const uint64_t number : waiting) answer(*clients_.at(number), message.error, process.why);
}

void TaskPools::hear_served(Process& process, const RankServed& message) {
    Client* const client = find_client(message.client);
    if (client == nullptr || client->pool != process.pool) return;
    const std::string text(message.text, strnlen(message.text, sizeof message.text));
    bool all = true;
    for (Client::Share& share : client->shares) {
        if (share.process == &process) share.served = message.error == 0;
        // One that took the place of another could not open the plug-in anew.
        if (share.process == &process && message.error != 0 && client->answered)
            close_queue(*share.queue, text.c_str());
        all = all && share.served;
    }
    if (client->answered) return;
    if (message.error != 0)
        answer(*client, message.error, base_name(process.pool->path) + ": " + text);
    else if (all)
        answer(*client, 0, "");
}

void TaskPools::hear_left(Process& process, uint64_t number) {
    Client* const client = find_client(number);
    if (client == nullptr || !client->closing) return;
    bool all = true;
    for (Client::Share& share : client->shares) {
        if (share.process == &process) share.left = true;
        all = all && share.left;
    }
    if (!all) return;
    const TaskHeader closed{kControlMagic, TaskMessage::kClosed};
    send_packet(client->socket, &closed, sizeof closed);  // it has read what was sent before
    clients_.erase(number);
}

void TaskPools::turn_process(Process& process) {
    process.unsent.flush(process.control);
    arm(process.control, process.unsent, process.number);
    for (;;) {
        size_t bytes = 0;
        const Io io = process.control
                          ? receive_packet(process.control, buffer_, sizeof buffer_, &bytes, nullptr)
                          : Io::kAgain;
        if (io == Io::kAgain) return;
        if (io == Io::kClosed) {
            // It has ended, which is heard of elsewhere, or the plug-in has closed what is not its own.
            if (process.pid > 0) kill(process.pid, SIGKILL);
            return process.control.reset();
        }
        PluginLoaded loaded;
        ProblemReport problem;
        RankServed served;
        LeaveRank left;
        left.header.kind = TaskMessage::kLeft;
        if (take_packet(buffer_, bytes, &loaded)) {
            hear_loaded(process, loaded);
        } else if (bytes == sizeof problem) {
            memcpy(static_cast<void*>(&problem), buffer_, sizeof problem);
            loaded.error = LONGSHORE_ERR_NO_PROCESS;
            snprintf(loaded.text, sizeof loaded.text, "no task process can be started: %.200s", problem.text);
            if (problem.header.magic == kControlMagic && problem.header.kind == ControlKind::kCannotStart)
                hear_loaded(process, loaded);
        } else if (take_packet(buffer_, bytes, &served)) {
            hear_served(process, served);
        } else if (bytes == sizeof left) {
            memcpy(static_cast<void*>(&left), buffer_, sizeof left);
            if (left.header.magic == kControlMagic && left.header.kind == TaskMessage::kLeft)
                hear_left(process, left.client);
        }
    }
}

// The task that it ran is finished, and not run again; others are run by its successor.
void TaskPools::lose(Process& process, const std::string& how) {
    Pool& pool = *process.pool;
    const std::string who =
        (pool.far.is_far != 0 ? "the carrier to task process " : "task process ") +
        std::to_string(process.index) + " of " + base_name(pool.path) + " on " +
        (pool.far.is_dpu != 0
             ? name_of(pool.far)
             : "node " + std::to_string(pool.far.is_far != 0 ? pool.far.to.node.value : node_.node)) +
        " was lost (" + how + ")";
    process.pid = 0;
    process.control.reset();
    process.unsent.clear();
    std::vector<uint64_t> mine, waiting;
    for (const auto& [number, client] : clients_) {
        for (Client::Share& share : client->shares) {
            if (share.process != &process || share.queue == nullptr) continue;
            const uint64_t started = share.queue->started.load();
            const uint32_t function = share.queue->place(started - 1).submission.function;
            const std::string what =
                function < pool.table.functions_count ? pool.table.names[function] : "a task";
            finish_lost(*share.queue, (who + " while it ran '" + what + "'").c_str());
            // One that it was about to serve may be why it ended.
            (share.asked && !share.served ? waiting : mine).push_back(number);
        }
    }
    for (const uint64_t number : waiting) {
        if (Client* client = find_client(number))
            answer(*client, LONGSHORE_ERR_NO_PROCESS, who + " before it could serve this rank");
    }
    if (process.refused != 0) {
        for (const uint64_t number : mine) {
            Client* const client = find_client(number);
            if (client == nullptr) continue;
            if (!client->answered) {
                answer(*client, process.refused, process.why);
                continue;
            }
            // A successor that could not be made ready.
            for (Client::Share& share : client->shares) {
                if (share.process == &process) close_queue(*share.queue, process.why.c_str());
            }
            if (client->closing) hear_left(process, number);
        }
        process.refused = 0;
        return;
    }
    // Who waits for its farewell has it.
    for (const uint64_t number : mine) {
        if (Client* client = find_client(number); client != nullptr && client->closing)
            hear_left(process, number);
    }
    std::erase_if(mine, [&](uint64_t number) { return find_client(number) == nullptr; });
    if (mine.empty()) return;
    // One whose first process ends while it loads the plug-in would do so for ever. A successor that ends
    // then has been killed, or is counted as any other.
    const bool again = pool.was_loaded && pool.restarts < node_.restarts_max;
    node_.tell((who + (again ? "; it is started again" : "; it is not started again")).c_str());
    // It may have ended again before all ranks are named to it, by a task of the first: then that is heard of
    // next.
    const bool started = again && (start(pool, process) || process.pid > 0);
    pool.restarts += again ? 1 : 0;
    for (const uint64_t number : mine) {
        Client& client = *clients_.at(number);
        for (uint32_t i = 0; started && i < client.shares.size(); ++i) {
            if (client.shares[i].process == &process) serve(client, i);
        }
    }
    if (started) return;
    process.given_up = who + ", and is not started again";
    for (const uint64_t number : mine) {
        if (Client* client = find_client(number); !client->answered) {
            answer(*client, LONGSHORE_ERR_NO_PROCESS, process.given_up);
            continue;
        }
        for (Client::Share& share : clients_.at(number)->shares) {
            if (share.process == &process) close_queue(*share.queue, process.given_up.c_str());
        }
    }
}

bool TaskPools::reap(pid_t pid, int status) {
    for (const auto& pool : pools_) {
        for (Process& process : pool->processes) {
            if (process.pid != pid) continue;
            turn_process(process);  // what it has said last
            lose(process, describe_end(status));
            return true;
        }
    }
    return false;
}

// --- a rank closes its pool, or is gone

void TaskPools::forget(uint64_t number) {
    Client& client = *clients_.at(number);
    LeaveRank message;
    message.client = number;
    for (const Client::Share& share : client.shares) {
        if (share.asked) tell(*share.process, message);
    }
    clients_.erase(number);
}

void TaskPools::turn_client(uint64_t number) {
    Client& client = *clients_.at(number);
    client.unsent.flush(client.socket);
    arm(client.socket, client.unsent, number);
    size_t bytes = 0;
    pollfd gone{client.process.get(), POLLIN, 0};
    if (poll(&gone, 1, 0) == 1) return forget(number);
    const Io io = receive_packet(client.socket, buffer_, sizeof buffer_, &bytes, nullptr);
    if (io == Io::kAgain) return;
    TaskHeader header;
    if (io == Io::kClosed || bytes != sizeof header) return forget(number);
    memcpy(&header, buffer_, sizeof header);
    if (header.magic != kControlMagic || header.kind != TaskMessage::kClose || !client.answered ||
        client.closing)
        return forget(number);
    client.closing = true;
    LeaveRank message;
    message.client = number;
    std::vector<Process*> silent;
    for (const Client::Share& share : client.shares) {
        if (!tell(*share.process, message)) silent.push_back(share.process);
    }
    for (Process* process : silent) {
        if (find_client(number) != nullptr) hear_left(*process, number);
    }
}

void TaskPools::turn() {
    constexpr int kEventsPerTurn = 64;
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) {
        const uint64_t number = events[i].data.u64;
        if (const auto at = processes_.find(number); at != processes_.end())
            turn_process(*at->second);
        else if (find_client(number) != nullptr)
            turn_client(number);
    }
}

void TaskPools::stop() {
    for (const auto& pool : pools_) {
        for (const Process& process : pool->processes) {
            if (process.pid > 0) kill(process.pid, SIGKILL);
        }
    }
    for (const auto& pool : pools_) {
        for (Process& process : pool->processes) {
            if (process.pid > 0) waitpid(process.pid, nullptr, 0);
            process.pid = 0;
        }
    }
}

}  // namespace longshore::tasks
