#include "tasks/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "fabric/shm/doorbell.h"
#include "fabric/shm/region.h"

namespace longshore::tasks {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kSpinNs = 20'000;    // before the first sleep
constexpr uint64_t kSleepNs = 100'000;  // after which other communication makes progress
constexpr uint32_t kSpinsPerClock = 16;
constexpr uint32_t kLooksPerCheck = 256;  // of the supervisor: a look is some 20 ns, or 100 us asleep
constexpr size_t kFreedTasksKept = 64;    // so long a task that is used twice is found out

}  // namespace

struct Client::Share {
    Mapping mapping;
    Queue* queue = nullptr;
    Fd doorbell;
    uint64_t submitted = 0, collected = 0;
    RankTask* open[kPlaces] = {};
};

Client::Client(Options options)
    : options_(std::move(options)), name_(options_.request.plugin), pid_(getpid()) {
    name_ = name_.substr(name_.rfind('/') + 1);
}

Client::~Client() = default;

bool Client::is_of_this_process() const {
    return getpid() == pid_;
}

int Client::open(Options options, const longshore_task_functions* functions, std::unique_ptr<Client>* out,
                 std::string* error) {
    std::unique_ptr<Client> client(new Client(std::move(options)));
    client->functions = functions;
    const int result = client->attach(error);
    if (result == 0) *out = std::move(client);
    return result;
}

int Client::attach(std::string* error) {
    socket_ = connect_to(options_.door);
    if (!socket_ || !peer_is_same_user(socket_, nullptr)) {
        *error = std::string("cannot reach the supervisor of the task processes: ") + strerror(errno);
        return LONGSHORE_ERR_NO_PROCESS;
    }
    OpenPool& request = options_.request;
    std::vector<int> give;
    request.has_heap = options_.heap_file >= 0 ? 1 : 0;
    request.has_stderr = options_.stderr_file >= 0 ? 1 : 0;
    if (request.has_heap != 0) {
        give.push_back(options_.heap_file);
        heap_base_ = request.heap.base;
        heap_end_ = heap_base_ + request.heap.bytes_max;
    }
    if (request.has_stderr != 0) give.push_back(options_.stderr_file);
    if (send_packet(socket_, &request, sizeof request, give) != Io::kOk) {
        *error = "the supervisor of the task processes is gone";
        return LONGSHORE_ERR_NO_PROCESS;
    }
    return hear_answer(error);
}

// Loading a plug-in may take its time, from a network's file system.
int Client::hear_answer(std::string* error) {
    const uint64_t end = awake_ns() + options_.limit_s * 4 * kSecondNs;
    std::vector<std::byte> buffer(sizeof(PoolOpened));
    std::vector<Fd> descriptors;
    size_t bytes = 0;
    Io io = Io::kAgain;
    while ((io = receive_packet(socket_, buffer.data(), buffer.size(), &bytes, &descriptors)) == Io::kAgain &&
           awake_ns() < end) {
        pollfd ready{socket_.get(), POLLIN, 0};
        poll(&ready, 1, 1);
        options_.progress();
    }
    PoolOpened answer;
    if (io != Io::kOk || !take_packet(buffer.data(), bytes, &answer)) {
        *error = io == Io::kAgain ? "no task process was ready in time (LONGSHORE_LIMIT_S)"
                                  : "the supervisor of the task processes has ended";
        return LONGSHORE_ERR_NO_PROCESS;
    }
    if (answer.error != 0) {
        error->assign(answer.text, strnlen(answer.text, sizeof answer.text));
        return answer.error;
    }
    if (answer.processes == 0 || answer.processes > kProcessesPerRankMax ||
        descriptors.size() != 2 * answer.processes || answer.table.functions_count > kFunctionsMax) {
        *error = "the supervisor of the task processes does not keep to the protocol";
        return LONGSHORE_ERR_NO_PROCESS;
    }
    table_ = answer.table;
    options_.may_spin = options_.may_spin && answer.may_spin != 0;
    for (uint32_t i = 0; i < answer.processes; ++i) {
        auto share = std::make_unique<Share>();
        share->queue = map_queue(descriptors[i], &share->mapping);
        share->doorbell = std::move(descriptors[answer.processes + i]);
        if (share->queue == nullptr) {
            *error = "no memory for a queue of tasks";
            return LONGSHORE_ERR_MEMORY;
        }
        shares_.push_back(std::move(share));
    }
    return 0;
}

// --- submitting

int Client::find(const char* function) const {
    for (uint32_t i = 0; i < table_.functions_count; ++i) {
        if (strncmp(table_.names[i], function, kNameBytes) == 0) return static_cast<int>(i);
    }
    return -1;
}

// A kept buffer by its number and the offset in it. False: it is not kept.
bool Client::find_place(const longshore_buffer& buffer, BufferPlace* out, int* open_place) const {
    *open_place = -1;
    const auto address = reinterpret_cast<uint64_t>(buffer.data);
    const auto access = static_cast<uint32_t>(buffer.access);
    if (access == LONGSHORE_KEPT) {
        const KeptRanges::Range* const range = kept_.find(address, buffer.bytes);
        if (range == nullptr) return false;
        *out = {range->number, address - range->address, buffer.bytes, access, 0};
        return true;
    }
    bool shared = heap_base_ <= address && address < heap_end_ && buffer.bytes <= heap_end_ - address;
    if (shared && options_.open_buffer != nullptr) {
        *open_place = options_.open_buffer(buffer.data, buffer.bytes, 0);
        shared = *open_place >= 0;
    }
    *out = {address, shared ? address - heap_base_ : 0, buffer.bytes, access, shared ? 1u : 0u};
    return true;
}

void Client::close_places(int* places, size_t count) const {
    for (size_t i = 0; i < count; ++i)
        if (places[i] >= 0) options_.close_buffer(std::exchange(places[i], -1));
}

RankTask* Client::new_task() {
    if (free_.size() >= kFreedTasksKept) {
        RankTask* const task = free_.front();
        free_.pop_front();
        return task;
    }
    tasks_.push_back(std::make_unique<RankTask>());
    tasks_.back()->functions = functions;
    tasks_.back()->pool = this;
    return tasks_.back().get();
}

// With the lock. 0, or why nothing can be submitted there now.
int Client::check_room(Share& share, const char* function, std::string* error) {
    const Queue& queue = *share.queue;
    if (queue.is_closed.load(std::memory_order_acquire) != 0) {
        *error = name_ + ": " + std::string(queue.reason, strnlen(queue.reason, sizeof queue.reason));
        return LONGSHORE_ERR_LOST;
    }
    if (share.submitted - share.collected == kPlaces) collect(share);
    if (share.submitted - share.collected == kPlaces) {
        *error =
            name_ + ": " + function + ": " + std::to_string(kPlaces) + " tasks are open; wait for one first";
        return LONGSHORE_ERR_FULL;
    }
    return 0;
}

// With the lock, where there is room. So many buffers stand in the next place already.
RankTask* Client::enqueue(uint32_t share_index, uint32_t function, const void* arguments,
                          size_t arguments_bytes, std::span<const int> open_places) {
    Share& share = *shares_[share_index];
    Queue& queue = *share.queue;
    RankTask* const task = new_task();
    task->share = share_index;
    task->number = share.submitted;
    task->function = function;
    task->is_open = true;
    task->is_over = false;
    task->also = nullptr;
    std::copy(open_places.begin(), open_places.end(), task->places);
    task->places_count = static_cast<uint32_t>(open_places.size());
    share.open[task->number % kPlaces] = task;
    Submission& submission = queue.place(task->number).submission;
    submission.function = function;
    submission.arguments_bytes = static_cast<uint32_t>(arguments_bytes);
    submission.buffers_count = static_cast<uint32_t>(open_places.size());
    if (arguments_bytes != 0) memcpy(submission.arguments, arguments, arguments_bytes);
    // The process sets its flag before it looks at the count.
    queue.submitted.store(++share.submitted, std::memory_order_seq_cst);
    if (queue.process_sleeps.load(std::memory_order_seq_cst) != 0) ring_eventfd(share.doorbell.get());
    return task;
}

int Client::submit(const char* function, const void* arguments, size_t arguments_bytes,
                   std::span<const longshore_buffer> buffers, RankTask** out, std::string* error) {
    const int index = find(function);
    if (index < 0) {
        *error = name_ + ": the plug-in has no function '" + function + "'";
        return LONGSHORE_ERR_FUNCTION;
    }
    const std::lock_guard lock(mutex_);
    Share& share = *shares_[next_share_];
    if (const int result = check_room(share, function, error); result != 0) return result;
    Submission& submission = share.queue->place(share.submitted).submission;
    int places[LONGSHORE_BUFFERS_MAX];
    for (size_t i = 0; i < buffers.size(); ++i) {
        if (find_place(buffers[i], &submission.buffers[i], &places[i])) continue;
        close_places(places, i);
        *error = name_ + ": " + function + ": buffer " + std::to_string(i) +
                 " is LONGSHORE_KEPT, but is not within one that longshore_keep was called for";
        return LONGSHORE_ERR_ARGUMENT;
    }
    *out = enqueue(next_share_, static_cast<uint32_t>(index), arguments, arguments_bytes,
                   {places, buffers.size()});
    next_share_ = (next_share_ + 1) % static_cast<uint32_t>(shares_.size());
    return 0;
}

// --- kept buffers

// With the lock. To all processes, or to none.
int Client::tell_of_kept(uint32_t what, const KeptPart& part, const void* data, uint64_t bytes,
                         RankTask** out, std::string* error) {
    for (const auto& share : shares_) {
        const int result = check_room(*share, what == kKeep ? "longshore_keep" : "longshore_forget", error);
        if (result != 0) return result;
    }
    const longshore_buffer buffer{const_cast<void*>(data), bytes, LONGSHORE_IN};
    const size_t buffers = what == kKeep ? 1 : 0;
    RankTask** last = out;
    for (uint32_t i = 0; i < shares_.size(); ++i) {
        Share& share = *shares_[i];
        int place = -1;
        if (buffers != 0) find_place(buffer, share.queue->place(share.submitted).submission.buffers, &place);
        *last = enqueue(i, what, &part, sizeof part, {&place, buffers});
        last = &(*last)->also;
    }
    return 0;
}

int Client::keep(const void* data, size_t bytes, bool is_change, RankTask** task, std::string* error) {
    const auto address = reinterpret_cast<uint64_t>(data);
    const std::lock_guard lock(mutex_);
    const char* why = "it is not within a buffer that is kept";
    const bool is_new = !is_change && kept_.find(address, bytes) == nullptr;
    const KeptRanges::Range* const range =
        is_change ? kept_.find(address, bytes) : kept_.add(address, bytes, &why);
    if (range == nullptr) {
        *error = name_ + (is_change ? ": longshore_change: " : ": longshore_keep: ") + why;
        return LONGSHORE_ERR_ARGUMENT;
    }
    const KeptPart part{range->number, range->bytes, address - range->address, is_change ? 0u : 1u};
    const int result = tell_of_kept(kKeep, part, data, bytes, task, error);
    KeptRanges::Range refused;
    if (result != 0 && is_new) kept_.remove(address, &refused);
    return result;
}

int Client::forget(const void* data, std::string* error) {
    RankTask* task = nullptr;
    {
        const std::lock_guard lock(mutex_);
        KeptRanges::Range range;
        if (!kept_.remove(reinterpret_cast<uint64_t>(data), &range)) {
            *error = name_ + ": longshore_forget: no buffer that is kept begins there";
            return LONGSHORE_ERR_ARGUMENT;
        }
        const int result = tell_of_kept(kForget, {range.number, range.bytes, 0, 0}, nullptr, 0, &task, error);
        if (result != 0) {
            kept_.restore(range);
            return result;
        }
    }
    wait(*task);
    return take(*task, error);
}

// --- what has become of them

// Whether the supervisor is gone, who would say that a process is, and the process, which the kernel ends
// then: only when it is does it write to no buffer any more.
bool Client::has_lost(Share& share) {
    if (!supervisor_is_gone_) {
        if (++looks_ % kLooksPerCheck != 0) return false;
        char byte;
        const ssize_t got = recv(socket_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
        supervisor_is_gone_ = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
        if (!supervisor_is_gone_) return false;
    }
    const uint32_t pid = share.queue->pid.load();
    return pid == 0 || process_is_over(pid);
}

// Takes the results of all that are finished, so that their places are free. With the lock.
void Client::collect(Share& share) {
    Queue& queue = *share.queue;
    const bool lost = queue.finished.load(std::memory_order_relaxed) == share.collected && has_lost(share);
    if (lost && queue.is_closed.load() == 0)
        close_queue(queue, "the supervisor of its task process has ended");
    const bool closed = queue.is_closed.load(std::memory_order_acquire) != 0;
    const uint64_t finished = std::min(queue.finished.load(std::memory_order_acquire), share.submitted);
    for (; share.collected < finished; ++share.collected) {
        RankTask& task = *share.open[share.collected % kPlaces];
        const Outcome& outcome = queue.place(share.collected).outcome;
        task.result = outcome.result;
        if (task.result != 0) memcpy(task.text, outcome.text, sizeof task.text);
        task.text[task.result != 0 ? sizeof task.text - 1 : 0] = 0;
        close_places(task.places, task.places_count);
        task.is_over = true;
    }
    for (; closed && share.collected < share.submitted; ++share.collected) {
        RankTask& task = *share.open[share.collected % kPlaces];
        task.result = LONGSHORE_ERR_LOST;
        snprintf(task.text, sizeof task.text, "%.*s", static_cast<int>(sizeof queue.reason), queue.reason);
        close_places(task.places, task.places_count);
        task.is_over = true;
    }
}

bool Client::test(RankTask& task) {
    for (RankTask* one = &task; one != nullptr; one = one->also) {
        if (!test_one(*one)) return false;
    }
    return true;
}

bool Client::test_one(RankTask& task) {
    const std::lock_guard lock(mutex_);
    if (!task.is_over && task.is_open) collect(*shares_[task.share]);
    return task.is_over || !task.is_open;
}

void Client::wait(RankTask& task) {
    for (RankTask* one = &task; one != nullptr; one = one->also) wait_one(*one);
}

void Client::wait_one(RankTask& task) {
    if (test_one(task)) return;
    Queue& queue = *shares_[task.share]->queue;
    const uint64_t begin = awake_ns();
    uint64_t now = begin, reported_ns = begin;
    while (options_.may_spin && now - begin < kSpinNs) {
        for (uint32_t i = 0; i < kSpinsPerClock; ++i) {
            if (test_one(task)) return;
            cpu_relax();
        }
        now = awake_ns();
    }
    while (!test_one(task)) {
        const uint32_t seen = queue.events.load(std::memory_order_seq_cst);
        if (test_one(task)) return;
        wait_for_process(queue, seen, kSleepNs);
        options_.progress();
        now = awake_ns();
        if (options_.report_s == 0 || now - reported_ns < options_.report_s * kSecondNs) continue;
        report(task, now - begin);
        reported_ns = now;
    }
}

std::string Client::name_of(const RankTask& task) const {
    if (task.function == kKeep) return "longshore_keep in " + name_;
    if (task.function == kForget) return "longshore_forget in " + name_;
    return std::string(table_.names[task.function], strnlen(table_.names[task.function], kNameBytes)) +
           " in " + name_;
}

void Client::report(const RankTask& task, uint64_t waited_ns) {
    const Queue& queue = *shares_[task.share]->queue;
    const uint64_t started = queue.started.load(), finished = queue.finished.load();
    std::string line = "a task waits for " + std::to_string(waited_ns / kSecondNs) + " s: " + name_of(task);
    if (started > task.number && finished <= task.number)
        line +=
            ", which has run for " + std::to_string((now_ns() - queue.started_ns.load()) / kSecondNs) + " s";
    else if (started > finished)
        line += ", behind " + std::to_string(task.number - finished) +
                " other tasks of this rank, the first of which runs";
    else
        line += ", which has not begun: its process serves other ranks, or hangs";
    options_.report(line + " (process " + std::to_string(queue.pid.load()) + ")");
}

int Client::take(RankTask& task, std::string* error) {
    const std::lock_guard lock(mutex_);
    if (!task.is_open) {
        *error = name_ + ": this task has been waited for already";
        return LONGSHORE_ERR_ARGUMENT;
    }
    int result = 0;
    for (RankTask* one = &task; one != nullptr; one = one->also) {
        if (one->result != 0 && result == 0) {
            result = one->result;
            *error = name_of(*one) + (one->text[0] != 0 ? std::string(": ") + one->text
                                                        : " returned " + std::to_string(result));
        }
        one->is_open = false;
        free_.push_back(one);
    }
    return result;
}

uint32_t Client::close(uint32_t limit_s) {
    const uint64_t end = limit_s == 0 ? UINT64_MAX : awake_ns() + limit_s * kSecondNs;
    uint32_t open = 0;
    for (const auto& share : shares_) {
        for (uint64_t number = share->collected; number < share->submitted; ++number) {
            RankTask& task = *share->open[number % kPlaces];
            if (limit_s == 0) {
                wait(task);
            } else {
                while (!test(task) && awake_ns() < end) usleep(1000);
                open += test(task) ? 0 : 1;
            }
        }
    }
    if (open != 0) return open;
    const TaskHeader last{kControlMagic, TaskMessage::kClose};
    std::byte buffer[sizeof(PoolOpened)];
    size_t bytes = 0;
    const uint64_t farewell = awake_ns() + options_.limit_s * kSecondNs;
    if (send_packet(socket_, &last, sizeof last) != Io::kOk) return 0;
    while (receive_packet(socket_, buffer, sizeof buffer, &bytes, nullptr) == Io::kAgain &&
           awake_ns() < std::min(end, farewell)) {
        pollfd ready{socket_.get(), POLLIN, 0};
        poll(&ready, 1, 1);
        options_.progress();
    }
    return 0;
}

void Client::counters(longshore_pool_counters* out) const {
    *out = {};
    out->processes = static_cast<uint32_t>(shares_.size());
    for (const auto& share : shares_) {
        out->tasks += share->queue->finished.load();
        out->bytes_mapped += share->queue->bytes_mapped.load();
        out->bytes_copied += share->queue->bytes_copied.load();
    }
}

}  // namespace longshore::tasks
