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

#include "fabric/shm/region.h"
#include "fabric/shm/socket.h"
#include "tasks/kept.h"
#include "tasks/plugin.h"
#include "tasks/rank_memory.h"

namespace longshore::tasks {
namespace {

constexpr uint64_t kLookNs = 500'000;  // how often a process that does not sleep looks at its socket

// A rank that has opened the pool.
struct Rank {
    uint64_t client = 0;
    Mapping mapping;
    Queue* queue = nullptr;
    RankMemory memory;
    void* state = nullptr;
    uint64_t next = 0;  // the task that is to be started
    KeptCopies kept;

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
    int run_keep(Rank& rank, std::span<const BufferPlace> buffers, std::string* error);
    int run_function(Rank& rank, std::span<const BufferPlace> buffers, std::string* error);
    void sleep();
    template <class Message>
    void say(const Message& message) {
        send_packet(socket_, &message, sizeof message);
    }

    Fd socket_, doorbell_;
    Plugin plugin_;
    uint64_t spin_ns_ = 0;
    std::vector<std::unique_ptr<Rank>> ranks_;
    Submission submission_;  // of the task that runs: the rank may write to its own meanwhile
    alignas(8) std::byte buffer_[kControlBytesMax];
};

template <class Message>
void set_text(Message* message, const std::string& text) {
    snprintf(message->text, sizeof message->text, "%s", text.c_str());
}

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
    answer.error = error.empty() ? plugin_.load(message.plugin, &error) : LONGSHORE_ERR_NO_PROCESS;
    answer.table = plugin_.table();
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
        Rank{message.client,
             {},
             nullptr,
             RankMemory(message.pid, process_start_time(message.pid), message.heap, std::move(heap)),
             nullptr,
             0,
             {}});
    rank->queue = map_queue(descriptors[0], &rank->mapping);
    std::string error;
    if (rank->queue == nullptr) {
        answer.error = LONGSHORE_ERR_NO_PROCESS;
        error = "the queue of tasks cannot be mapped";
    } else {
        answer.error = plugin_.open(&rank->state, &error);
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
    const auto at =
        std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank->client == client; });
    if (at != ranks_.end()) {
        plugin_.close((*at)->state);
        ranks_.erase(at);
    }
    LeaveRank answer;
    answer.header.kind = TaskMessage::kLeft;
    answer.client = client;
    say(answer);
}

// Takes what the supervisor has said. False: it is gone.
bool TaskProcess::hear() {
    for (;;) {
        std::vector<Fd> descriptors;
        size_t bytes = 0;
        const Io io = receive_packet(socket_, buffer_, sizeof buffer_, &bytes, &descriptors);
        if (io != Io::kOk) return io == Io::kAgain;
        ServeRank message;
        LeaveRank last;
        if (take_packet(buffer_, bytes, &message))
            serve(message, std::move(descriptors));
        else if (take_packet(buffer_, bytes, &last))
            leave(last.client);
    }
}

constexpr const char* kNonsense = "what the program says of it makes no sense";
constexpr const char* kCopyLost =
    "the copy of a kept buffer was lost with an earlier task process, or could not be made; keep it again";

void add(Atomic<uint64_t>& word, uint64_t count) {
    word.store(word.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

// What longshore_keep, _change and _forget have submitted.
int TaskProcess::run_keep(Rank& rank, std::span<const BufferPlace> buffers, std::string* error) {
    KeptPart part;
    const bool is_forget = submission_.function == kForget;
    *error = kNonsense;
    if (submission_.arguments_bytes != sizeof part || buffers.size() != (is_forget ? 0 : 1))
        return LONGSHORE_ERR_ARGUMENT;
    memcpy(&part, submission_.arguments, sizeof part);
    if (is_forget) {
        error->clear();
        rank.kept.forget(part.number);
        return 0;
    }
    const uint64_t bytes = buffers[0].bytes;
    if (bytes == 0 || (part.is_whole != 0 && (part.offset != 0 || bytes != part.bytes)))
        return LONGSHORE_ERR_ARGUMENT;
    std::byte* const copy = part.is_whole != 0 ? rank.kept.make(part.number, bytes)
                                               : rank.kept.find(part.number, part.offset, bytes);
    if (copy == nullptr) {
        *error = part.is_whole != 0 ? "there is no memory for " + std::to_string(bytes) + " bytes to be kept"
                                    : kCopyLost;
        return part.is_whole != 0 ? LONGSHORE_ERR_MEMORY : LONGSHORE_ERR_LOST;
    }
    error->clear();
    longshore_view view;
    RankMemory::Bytes ignored;
    if (!rank.memory.open(buffers, &view, &ignored, error)) {
        rank.kept.forget(part.number);
        return LONGSHORE_ERR_MEMORY;
    }
    memcpy(copy, view.data, bytes);
    add(rank.queue->bytes_copied, bytes);
    return 0;
}

int TaskProcess::run_task(Rank& rank, std::string* error) {
    const std::span<const BufferPlace> buffers(
        submission_.buffers, std::min<size_t>(submission_.buffers_count, LONGSHORE_BUFFERS_MAX));
    if (buffers.size() == submission_.buffers_count &&
        (submission_.function == kKeep || submission_.function == kForget))
        return run_keep(rank, buffers, error);
    if (submission_.function >= plugin_.table().functions_count ||
        submission_.arguments_bytes > LONGSHORE_ARGUMENTS_BYTES_MAX ||
        buffers.size() != submission_.buffers_count) {
        *error = kNonsense;
        return LONGSHORE_ERR_ARGUMENT;
    }
    return run_function(rank, buffers, error);
}

// What the plug-in returns, or an error of Longshore's.
int TaskProcess::run_function(Rank& rank, std::span<const BufferPlace> buffers, std::string* error) {
    longshore_view views[LONGSHORE_BUFFERS_MAX];
    RankMemory::Bytes bytes;
    if (!rank.memory.open(buffers, views, &bytes, error)) return LONGSHORE_ERR_MEMORY;
    for (size_t i = 0; i < buffers.size(); ++i) {
        if (buffers[i].access != LONGSHORE_KEPT) continue;
        views[i].data = rank.kept.find(buffers[i].address, buffers[i].offset, buffers[i].bytes);
        if (views[i].data != nullptr) continue;
        *error = kCopyLost;
        return LONGSHORE_ERR_LOST;
    }
    const longshore_call call{submission_.arguments, submission_.arguments_bytes, views, buffers.size(),
                              rank.state};
    int result = plugin_.run(submission_.function, call, error);
    if (result == 0 && !rank.memory.close(buffers, views, &bytes, error)) result = LONGSHORE_ERR_MEMORY;
    add(rank.queue->bytes_mapped, bytes.mapped);
    add(rank.queue->bytes_copied, bytes.copied);
    return result;
}

void TaskProcess::run_next(Rank& rank) {
    Queue& queue = *rank.queue;
    Place& place = queue.place(rank.next);
    // Only what is filled in: the arguments and buffers of most tasks are few.
    constexpr size_t kFixed = offsetof(Submission, buffers);
    memcpy(static_cast<void*>(&submission_), &place.submission, kFixed);
    const size_t buffers = std::min<size_t>(submission_.buffers_count, LONGSHORE_BUFFERS_MAX);
    const size_t arguments = std::min<size_t>(submission_.arguments_bytes, LONGSHORE_ARGUMENTS_BYTES_MAX);
    std::copy_n(place.submission.buffers, buffers, submission_.buffers);
    std::copy_n(place.submission.arguments, arguments, submission_.arguments);
    queue.started_ns.store(now_ns(), std::memory_order_relaxed);
    queue.started.store(++rank.next, std::memory_order_release);
    std::string error;
    place.outcome.result = run_task(rank, &error);
    place.outcome.text[0] = 0;
    if (!error.empty()) snprintf(place.outcome.text, sizeof place.outcome.text, "%s", error.c_str());
    queue.finished.store(rank.next, std::memory_order_release);
    tell_rank(queue);
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
        pollfd ready[] = {{doorbell_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
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
        if (now - busy_ns < spin_ns_) {
            cpu_relax();
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
