#include "tasks/task_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fabric/shm/core_share.h"
#include "fabric/shm/packet_queue.h"
#include "fabric/shm/region.h"
#include "tasks/executor.h"
#include "tasks/rank_memory.h"

namespace longshore::tasks {
namespace {

constexpr uint64_t kLookNs = 500'000;  // how often a process that does not sleep looks at its socket

// A rank that has opened the pool.
struct Rank {
    Mapping mapping;
    Queue* queue = nullptr;
    RankMemory memory;
    Mapping copies;
    Executor::Patron patron;
    uint64_t next = 0;  // the task that is to be started

    // A count that makes no sense is a rank's that has gone wild: it has none.
    bool has_task() const {
        const uint64_t waiting = queue->submitted.load(std::memory_order_acquire) - next;
        return waiting != 0 && waiting <= kPlaces;
    }
};

class TaskProcess {
  public:
    TaskProcess() : socket_(kServiceControlFd) {}
    int run();

  private:
    bool start();
    bool hear();
    void serve(const ServeRank& message, std::vector<Fd> descriptors);
    void leave(uint64_t client);
    bool run_tasks();
    void run_next(Rank& rank);
    int run_task(Rank& rank, std::string* error);
    void sleep();
    template <class Message>
    void say(const Message& message) {
        unsent_.send_message(socket_, message);
    }

    Fd socket_, doorbell_;
    PacketQueue unsent_;  // an answer for each word of the supervisor
    Executor executor_;
    uint64_t spin_ns_ = 0;
    CoreShare core_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    Submission submission_;  // of the task that runs: the rank may write to its own meanwhile
    alignas(8) std::byte buffer_[kControlBytesMax];
};

// The first packet says what this process is for.
bool TaskProcess::start() {
    std::vector<Fd> descriptors;
    size_t bytes = 0;
    Io io = Io::kAgain;
    while ((io = receive_packet(socket_, buffer_, sizeof buffer_, &bytes, &descriptors)) == Io::kAgain) {
        pollfd ready{socket_.get(), POLLIN, 0};
        poll(&ready, 1, -1);
    }
    StartTasks message;
    if (io != Io::kOk || !take_packet(buffer_, bytes, &message) ||
        descriptors.size() != 1 + (message.has_stderr != 0))
        return false;
    doorbell_ = std::move(descriptors[0]);
    if (message.has_stderr != 0) {
        dup2(descriptors[1].get(), STDERR_FILENO);
        dup2(descriptors[1].get(), STDOUT_FILENO);
    }
    spin_ns_ = uint64_t{message.spin_us} * 1000;
    message.plugin[kPathBytes - 1] = message.directory[kPathBytes - 1] = 0;
    PluginLoaded answer;
    std::string error;
    if (chdir(message.directory) != 0)
        error = std::string("cannot go to ") + message.directory + ": " + strerror(errno);
    answer.error = error.empty() ? executor_.plugin().load(message.plugin, &error) : LONGSHORE_ERR_NO_PROCESS;
    answer.table = executor_.plugin().table();
    set_text(&answer, error);
    say(answer);
    // Unread packets would make the supervisor's next look an error, and the answer would be lost.
    while (answer.error != 0 &&
           (io = receive_packet(socket_, buffer_, sizeof buffer_, &bytes, nullptr)) != Io::kClosed) {
        pollfd ready{socket_.get(), POLLIN, 0};
        poll(&ready, 1, -1);
    }
    return answer.error == 0;
}

void TaskProcess::serve(const ServeRank& message, std::vector<Fd> descriptors) {
    RankServed answer;
    answer.client = message.client;
    if (descriptors.size() != 1 + (message.has_heap != 0)) return;
    Fd heap = message.has_heap != 0 ? std::move(descriptors[1]) : Fd();
    auto rank = std::make_unique<Rank>(
        Rank{{},
             nullptr,
             RankMemory(message.pid, process_start_time(message.pid), message.heap, std::move(heap)),
             {},
             {message.client, nullptr, {}},
             0});
    rank->queue = map_queue(descriptors[0], &rank->mapping);
    std::string error;
    if (rank->queue == nullptr) {
        answer.error = LONGSHORE_ERR_NO_PROCESS;
        error = "the queue of tasks cannot be mapped";
    } else {
        answer.error = executor_.plugin().open(&rank->patron.state, &error);
    }
    set_text(&answer, error);
    if (answer.error == 0) {
        // A former process may have finished some.
        rank->next = rank->queue->finished.load(std::memory_order_acquire);
        rank->queue->pid.store(static_cast<uint32_t>(getpid()), std::memory_order_relaxed);
        ranks_.push_back(std::move(rank));
    }
    say(answer);
}

void TaskProcess::leave(uint64_t client) {
    const auto at = std::find_if(ranks_.begin(), ranks_.end(),
                                 [&](const auto& rank) { return rank->patron.client == client; });
    if (at != ranks_.end()) {
        executor_.plugin().close((*at)->patron.state);
        ranks_.erase(at);
    }
    LeaveRank answer;
    answer.header.kind = TaskMessage::kLeft;
    answer.client = client;
    say(answer);
}

// Takes what the supervisor has said. False: it is gone.
bool TaskProcess::hear() {
    unsent_.flush(socket_);
    return hear_of_ranks(
        socket_, buffer_,
        [this](const ServeRank& message, std::vector<Fd> descriptors) {
            serve(message, std::move(descriptors));
        },
        [this](uint64_t client) { leave(client); });
}

// What the plug-in returns, or an error of Longshore's.
int TaskProcess::run_task(Rank& rank, std::string* error) {
    if (const int result = executor_.check(submission_, error); result != 0) return result;
    const std::span<const BufferPlace> buffers(submission_.buffers, submission_.buffers_count);
    longshore_view views[LONGSHORE_BUFFERS_MAX];
    RankMemory::Bytes bytes;
    if (!rank.memory.open(buffers, views, &rank.copies, &bytes, error)) {
        Executor::give_up(rank.patron, submission_);
        return LONGSHORE_ERR_MEMORY;
    }
    int result = executor_.run(rank.patron, submission_, views, error);
    if (result == 0 && !rank.memory.close(buffers, views, rank.copies, &bytes, error))
        result = LONGSHORE_ERR_MEMORY;
    // A kept buffer is copied, also where it is mapped.
    const bool keeps = submission_.function == kKeep;
    add(rank.queue->bytes_mapped, keeps ? 0 : bytes.mapped);
    add(rank.queue->bytes_copied, keeps ? submission_.buffers[0].bytes : bytes.copied);
    return result;
}

void TaskProcess::run_next(Rank& rank) {
    Queue& queue = *rank.queue;
    Place& place = queue.place(rank.next);
    copy_submission(place.submission, &submission_);
    queue.started_ns.store(now_ns(), std::memory_order_relaxed);
    queue.started.store(++rank.next, std::memory_order_release);
    std::string error;
    const int result = run_task(rank, &error);
    finish_next(queue, result, error);
}

// One of each rank that has any.
bool TaskProcess::run_tasks() {
    bool ran = false;
    for (const auto& rank : ranks_) {
        if (!rank->has_task()) continue;
        run_next(*rank);
        ran = true;
    }
    return ran;
}

// Until a rank rings or the supervisor speaks.
void TaskProcess::sleep() {
    const auto set = [this](uint32_t sleeps) {
        for (const auto& rank : ranks_) rank->queue->process_sleeps.store(sleeps, std::memory_order_seq_cst);
    };
    set(1);
    // Who submits counts first and looks at the flag then.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool idle =
        std::none_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->has_task(); });
    if (idle) {
        const short wanted = unsent_.empty() ? POLLIN : POLLIN | POLLOUT;
        pollfd ready[] = {{doorbell_.get(), POLLIN, 0}, {socket_.get(), wanted, 0}};
        poll(ready, 2, -1);
    }
    set(0);
    uint64_t count = 0;
    while (read(doorbell_.get(), &count, sizeof count) > 0) {
    }
}

int TaskProcess::run() {
    prctl(PR_SET_NAME, "longshore-task");
    if (!start()) return 1;
    uint64_t looked_ns = 0, busy_ns = 0;
    for (;;) {
        const bool ran = run_tasks();
        const uint64_t now = now_ns();
        if (ran) busy_ns = now;
        if (now - looked_ns >= kLookNs) {
            looked_ns = now;
            if (!hear()) return 0;
        }
        if (ran) continue;
        if (now - busy_ns < spin_ns_ && core_.may_poll(now)) {
            core_.offer(now);
            continue;
        }
        sleep();
        looked_ns = 0;
        if (spin_ns_ != 0) busy_ns = now_ns();
    }
}

}  // namespace

int run_task_process() {
    return TaskProcess().run();
}

}  // namespace longshore::tasks
