#include "tasks/carrier.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "fabric/network.h"
#include "fabric/shm/packet_queue.h"
#include "fabric/shm/region.h"
#include "tasks/frames.h"
#include "tasks/kept.h"
#include "tasks/plugin_file.h"
#include "tasks/rank_memory.h"

extern char** environ;

namespace longshore::tasks {
namespace {

// A rank that has opened the pool.
struct SentRank {
    uint64_t client = 0;
    Mapping mapping;
    Queue* queue = nullptr;
    std::unique_ptr<RankMemory> memory;
    uint64_t next = 0;  // the task that is to be sent
    bool is_served = false, leaves = false;

    bool has_task() const {
        const uint64_t waiting = queue->submitted.load(std::memory_order_acquire) - next;
        return is_served && !leaves && waiting != 0 && waiting <= kPlaces;
    }
};

// A task that is there, or on its way, or could not be sent and waits for those before it.
struct Carried {
    SentRank* rank = nullptr;
    Submission submission;
    longshore_view views[LONGSHORE_BUFFERS_MAX];
    Mapping copies;
    RankMemory::Bytes ignored;
    uint64_t frame = 0;  // the number of its frame; 0: it has none
    bool has_begun = false;
    int32_t failed = 0;  // what became of it, whatever the other end says
    std::string why;
};

// Of a socket to which more is to be sent, or nothing.
short wanted(bool has_more) {
    return has_more ? POLLIN | POLLOUT : POLLIN;
}

// What is to be sent: a frame, and where its payload lies.
struct Outgoing {
    std::vector<std::byte> frame;
    std::vector<iovec> parts;  // the frame first
};

// Takes `bytes` off the front. Whether nothing is left.
bool advance(std::vector<iovec>* parts, size_t bytes) {
    size_t whole = 0;
    while (whole < parts->size() && bytes >= (*parts)[whole].iov_len) bytes -= (*parts)[whole++].iov_len;
    parts->erase(parts->begin(), parts->begin() + static_cast<ptrdiff_t>(whole));
    if (parts->empty()) return true;
    parts->front().iov_base = static_cast<std::byte*>(parts->front().iov_base) + bytes;
    parts->front().iov_len -= bytes;
    return false;
}

class Carrier {
  public:
    explicit Carrier(ConnectToDpu to_dpu) : to_dpu_(to_dpu), socket_(kServiceControlFd) {}
    int run();

  private:
    bool hear_start(StartTasks* start);
    bool connect(const StartTasks& start, std::string* error);
    void open(const StartTasks& start);
    int refuse(const std::string& why);
    // what the supervisor says
    bool hear();
    void serve(const ServeRank& message, std::vector<Fd> descriptors);
    void leave(uint64_t client);
    template <class Message>
    void say(const Message& message) {
        unsent_.send_message(socket_, message);
    }
    // to the other node
    SentRank* find_next();
    bool has_room_for(const Submission& submission) const;
    bool must_wait(const SentRank& rank, const Submission& submission) const;
    void carry_tasks();
    void carry_next(SentRank& rank);
    bool is_sound(const Carried& task) const;
    template <class Frame>
    void send(FrameKind kind, const Frame& frame, uint64_t payload_bytes = 0);
    bool flush();
    // from there
    bool receive();
    bool take_header();
    bool take_body();
    bool take_loaded(const LoadedFrame& frame);
    bool take_serving(const ServingFrame& frame);
    bool take_left(const ClientFrame& frame);
    bool take_begun(const ClientFrame& frame);
    bool take_result(const ResultFrame& frame);
    bool is_sent_for(uint64_t client) const;
    void expect(void* data, size_t bytes);
    void settle(int32_t result, const std::string& why);
    void settle_unsent();
    int lose();
    void sleep();
    SentRank* find(uint64_t client);

    const ConnectToDpu to_dpu_;
    Fd socket_, doorbell_, stream_;
    PacketQueue unsent_;          // an answer for each word of the supervisor
    std::string plugin_, there_;  // for texts: its name; "node 1 (host)"
    PluginTable table_;
    bool is_loaded_ = false;
    std::vector<std::unique_ptr<SentRank>> ranks_;
    size_t turn_ = 0;  // whose is next
    Submission next_;
    std::deque<Carried> carried_;  // in order, at most kCarriedMax
    std::vector<Mapping> copies_;  // of tasks that are over; the last one is the next one's
    std::deque<Outgoing> out_;
    uint64_t frames_made_ = 0, frames_sent_ = 0;
    // What comes: a header, its body, then the payload of the first of carried_.
    enum class Stage : uint8_t { kHeader, kBody, kPayload };
    Stage stage_ = Stage::kHeader;
    std::vector<iovec> in_;  // what is to be filled before the next step
    FrameHeaderBytes header_bytes_{};
    FrameHeader header_;
    std::vector<std::byte> body_;
    alignas(8) std::byte buffer_[kControlBytesMax];
};

// --- beginning

bool Carrier::hear_start(StartTasks* start) {
    std::vector<Fd> descriptors;
    size_t bytes = 0;
    Io io = Io::kAgain;
    while ((io = receive_packet(socket_, buffer_, sizeof buffer_, &bytes, &descriptors)) == Io::kAgain) {
        pollfd ready{socket_.get(), POLLIN, 0};
        poll(&ready, 1, -1);
    }
    if (io != Io::kOk || !take_packet(buffer_, bytes, start) ||
        descriptors.size() != 1 + (start->has_stderr != 0) ||
        start->far.address_bytes > sizeof start->far.addresses)
        return false;
    start->far.dpu[sizeof start->far.dpu - 1] = 0;
    doorbell_ = std::move(descriptors[0]);
    start->plugin[kPathBytes - 1] = start->directory[kPathBytes - 1] = 0;
    start->cores[sizeof start->cores - 1] = 0;
    return true;
}

bool Carrier::connect(const StartTasks& start, std::string* error) {
    if (start.far.is_dpu != 0) {
        if (to_dpu_ == nullptr) *error = "cannot be reached: this Longshore was built without DPUs";
        if (to_dpu_ != nullptr)
            stream_ = to_dpu_(start.far, uint64_t{start.far.limit_s} * 2'000'000'000, error);
        if (!stream_) *error = there_ + " " + *error;
        return static_cast<bool>(stream_);
    }
    const NetworkPart* const part = load_own_network(NetworkKind::kTcp, error);
    if (part == nullptr) return false;
    const FarNode& far = start.far;
    // Its supervisor may still learn what the job's nodes are.
    const uint64_t limit_ns = uint64_t{far.limit_s} * 2'000'000'000;
    std::string why;
    if (part->streams != nullptr)
        stream_ =
            part->streams->connect(far.self, far.to, {far.addresses, far.address_bytes}, limit_ns, &why);
    if (!stream_) *error = there_ + " cannot be reached for tasks: " + why;
    return static_cast<bool>(stream_);
}

void Carrier::open(const StartTasks& start) {
    OpenFrame frame;
    frame.plugin = start.plugin;
    frame.directory = start.directory;
    frame.cores = start.cores;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
        frame.environment.emplace_back(*variable);
    // A DPU has a file of its own, perhaps for another architecture.
    const PluginFile file = start.far.is_dpu != 0 ? PluginFile{} : look_at_plugin(start.plugin);
    frame.plugin_bytes = file.bytes;
    frame.plugin_hash = file.hash;
    frame.threads = start.threads;
    frame.processes = start.processes;
    frame.index = start.index;
    send(FrameKind::kOpen, frame);
}

// Until the supervisor has heard it and ends this process: unread packets would make its next look an error.
int Carrier::refuse(const std::string& why) {
    PluginLoaded answer;
    answer.error = LONGSHORE_ERR_NO_PROCESS;
    set_text(&answer, why);
    say(answer);
    size_t bytes = 0;
    while (receive_packet(socket_, buffer_, sizeof buffer_, &bytes, nullptr) != Io::kClosed) {
        pollfd ready{socket_.get(), wanted(!unsent_.empty()), 0};
        poll(&ready, 1, -1);
        unsent_.flush(socket_);
    }
    return 1;
}

// --- what the supervisor says

SentRank* Carrier::find(uint64_t client) {
    const auto at =
        std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& rank) { return rank->client == client; });
    return at == ranks_.end() ? nullptr : at->get();
}

void Carrier::serve(const ServeRank& message, std::vector<Fd> descriptors) {
    if (descriptors.size() != 1 + (message.has_heap != 0)) return;
    auto rank = std::make_unique<SentRank>();
    rank->client = message.client;
    rank->queue = map_queue(descriptors[0], &rank->mapping);
    if (rank->queue == nullptr) {
        RankServed answer;
        answer.client = message.client;
        answer.error = LONGSHORE_ERR_NO_PROCESS;
        set_text(&answer, "the queue of tasks cannot be mapped");
        return say(answer);
    }
    Fd heap = message.has_heap != 0 ? std::move(descriptors[1]) : Fd();
    rank->memory = std::make_unique<RankMemory>(message.pid, process_start_time(message.pid), message.heap,
                                                std::move(heap));
    // A former carrier may have finished some.
    rank->next = rank->queue->finished.load(std::memory_order_acquire);
    rank->queue->pid.store(static_cast<uint32_t>(getpid()), std::memory_order_relaxed);
    ranks_.push_back(std::move(rank));
    send(FrameKind::kServe, ClientFrame{message.client});
}

void Carrier::leave(uint64_t client) {
    SentRank* const rank = find(client);
    if (rank == nullptr || rank->leaves) return;
    rank->leaves = true;
    send(FrameKind::kLeave, ClientFrame{client});
}

// False: it is gone.
bool Carrier::hear() {
    unsent_.flush(socket_);
    return hear_of_ranks(
        socket_, buffer_,
        [this](const ServeRank& message, std::vector<Fd> descriptors) {
            serve(message, std::move(descriptors));
        },
        [this](uint64_t client) { leave(client); });
}

// --- to the other node

template <class Frame>
void Carrier::send(FrameKind kind, const Frame& frame, uint64_t payload_bytes) {
    ++frames_made_;
    Outgoing& out = out_.emplace_back();
    out.frame = make_frame(kind, frame, payload_bytes);
    out.parts.push_back({out.frame.data(), out.frame.size()});
}

bool Carrier::has_room_for(const Submission& submission) const {
    // What makes no sense is refused when its turn comes.
    if (carried_.size() < 2 || submission.buffers_count > LONGSHORE_BUFFERS_MAX) return true;
    const auto bytes_of = [](const Submission& s) { return bytes_that_go(s) + bytes_that_come(s); };
    uint64_t bytes = bytes_of(submission);
    for (const Carried& task : carried_) bytes += bytes_of(task.submission);
    return bytes <= kCarriedBytesMax;
}

// What a task reads may be what one before it writes: then it is read when that has come back.
bool Carrier::must_wait(const SentRank& rank, const Submission& submission) const {
    const auto overlap = [](const BufferPlace& a, const BufferPlace& b) {
        return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
    };
    const std::span<const BufferPlace> buffers(
        submission.buffers, std::min<size_t>(submission.buffers_count, LONGSHORE_BUFFERS_MAX));
    return std::any_of(carried_.begin(), carried_.end(), [&](const Carried& task) {
        if (task.rank != &rank) return false;
        for (const BufferPlace& read : buffers) {
            for (uint32_t i = 0; goes(read) && i < task.submission.buffers_count; ++i) {
                const BufferPlace& written = task.submission.buffers[i];
                if (comes(written) && overlap(read, written)) return true;
            }
        }
        return false;
    });
}

// The rank whose next task, which is in next_ then, can be carried now: each in turn. Null: there is none.
SentRank* Carrier::find_next() {
    if (!is_loaded_ || carried_.size() >= kCarriedMax) return nullptr;
    for (size_t i = 0; i < ranks_.size(); ++i) {
        SentRank& rank = *ranks_[turn_++ % ranks_.size()];
        if (!rank.has_task()) continue;
        copy_submission(rank.queue->place(rank.next).submission, &next_);
        if (has_room_for(next_) && !must_wait(rank, next_)) return &rank;
    }
    return nullptr;
}

void Carrier::carry_tasks() {
    while (SentRank* const rank = find_next()) carry_next(*rank);
}

// What the other end would not take is not sent: it would end the stream of all ranks.
bool Carrier::is_sound(const Carried& task) const {
    const Submission& s = task.submission;
    const bool is_known = s.function < table_.functions_count || s.function == kKeep || s.function == kForget;
    if (!is_known || s.buffers_count > LONGSHORE_BUFFERS_MAX ||
        s.arguments_bytes > LONGSHORE_ARGUMENTS_BYTES_MAX)
        return false;
    TaskFrame again;
    return decode(encode(TaskFrame{task.rank->client, s}), &again);
}

void Carrier::carry_next(SentRank& rank) {
    Queue& queue = *rank.queue;
    Carried& task = carried_.emplace_back();
    task.rank = &rank;
    copy_submission(next_, &task.submission);
    queue.started_ns.store(now_ns(), std::memory_order_relaxed);
    queue.started.store(++rank.next, std::memory_order_release);
    Submission& submission = task.submission;
    if (!is_sound(task)) {
        task.failed = LONGSHORE_ERR_ARGUMENT;
        task.why = "what the program says of it makes no sense";
        submission.buffers_count = 0;
        return settle_unsent();
    }
    if (!copies_.empty()) {
        task.copies = std::move(copies_.back());
        copies_.pop_back();
    }
    if (!rank.memory->open({submission.buffers, submission.buffers_count}, task.views, &task.copies,
                           &task.ignored, &task.why)) {
        task.failed = LONGSHORE_ERR_MEMORY;
        submission.buffers_count = 0;
        if (submission.function != kKeep) return settle_unsent();
        // What could not be read is not kept any more, there either.
        submission.function = kForget;
    }
    const uint64_t bytes = bytes_that_go(submission);
    add(queue.bytes_copied, bytes);
    send(FrameKind::kTask, TaskFrame{rank.client, submission}, bytes);
    task.frame = frames_made_;
    for (uint32_t i = 0; i < submission.buffers_count; ++i) {
        const BufferPlace& buffer = submission.buffers[i];
        if (goes(buffer) && buffer.bytes != 0)
            out_.back().parts.push_back({task.views[i].data, buffer.bytes});
    }
}

// What there is room for. False: the stream has ended.
bool Carrier::flush() {
    while (!out_.empty()) {
        Outgoing& out = out_.front();
        msghdr message{};
        message.msg_iov = out.parts.data();
        message.msg_iovlen = out.parts.size();
        const ssize_t sent = sendmsg(stream_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        if (!advance(&out.parts, static_cast<size_t>(sent))) continue;
        out_.pop_front();
        ++frames_sent_;
    }
    return true;
}

// --- from there

void Carrier::expect(void* data, size_t bytes) {
    if (bytes != 0) in_.push_back({data, bytes});
}

// What has come. False: the stream has ended, or carries what it may not.
bool Carrier::receive() {
    for (;;) {
        if (in_.empty()) {
            bool right = true;
            if (stage_ == Stage::kHeader) {
                right = take_header();
            } else if (stage_ == Stage::kBody) {
                right = take_body();
            } else {
                settle(0, "");
                stage_ = Stage::kHeader;
                expect(header_bytes_.data(), header_bytes_.size());
            }
            if (!right) return false;
            continue;
        }
        msghdr message{};
        message.msg_iov = in_.data();
        message.msg_iovlen = in_.size();
        const ssize_t got = recvmsg(stream_.get(), &message, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got <= 0) return false;
        advance(&in_, static_cast<size_t>(got));
    }
}

bool Carrier::take_header() {
    if (!decode_header(header_bytes_, &header_)) return false;
    body_.resize(header_.body_bytes);
    expect(body_.data(), body_.size());
    stage_ = Stage::kBody;
    return true;
}

bool Carrier::take_body() {
    const auto take = [&](auto frame, bool (Carrier::*next)(const decltype(frame)&)) {
        return decode(body_, &frame) && (this->*next)(frame);
    };
    // The payload of a result is expected behind it.
    stage_ = Stage::kHeader;
    bool right = false;
    switch (header_.kind) {
        case FrameKind::kLoaded:
            right = take(LoadedFrame{}, &Carrier::take_loaded);
            break;
        case FrameKind::kServing:
            right = take(ServingFrame{}, &Carrier::take_serving);
            break;
        case FrameKind::kLeft:
            right = take(ClientFrame{}, &Carrier::take_left);
            break;
        case FrameKind::kBegun:
            right = take(ClientFrame{}, &Carrier::take_begun);
            break;
        case FrameKind::kResult:
            right = take(ResultFrame{}, &Carrier::take_result);
            break;
        default:
            break;
    }
    if (stage_ == Stage::kHeader) expect(header_bytes_.data(), header_bytes_.size());
    return right;
}

bool Carrier::take_loaded(const LoadedFrame& frame) {
    if (is_loaded_) return false;
    is_loaded_ = frame.error == 0;
    table_ = frame.table;
    PluginLoaded answer;
    answer.error = frame.error;
    answer.table = frame.table;
    set_text(&answer, frame.error != 0 ? "on " + there_ + ": " + frame.text : "");
    say(answer);
    return true;
}

bool Carrier::take_serving(const ServingFrame& frame) {
    SentRank* const rank = find(frame.client);
    if (rank == nullptr || rank->is_served) return false;
    RankServed answer;
    answer.client = frame.client;
    answer.error = frame.error;
    set_text(&answer, frame.text);
    say(answer);
    rank->is_served = frame.error == 0;
    return true;
}

// The tasks of the rank were before this.
bool Carrier::take_left(const ClientFrame& frame) {
    SentRank* const rank = find(frame.client);
    if (rank == nullptr || !rank->leaves) return false;
    std::erase_if(carried_, [&](const Carried& task) { return task.rank == rank; });
    settle_unsent();
    std::erase_if(ranks_, [&](const auto& one) { return one.get() == rank; });
    LeaveRank answer;
    answer.header.kind = TaskMessage::kLeft;
    answer.client = frame.client;
    say(answer);
    return true;
}

// Whether the first task is that rank's, and all of its frame is out: others cannot be spoken of.
bool Carrier::is_sent_for(uint64_t client) const {
    if (carried_.empty()) return false;
    const Carried& task = carried_.front();
    return task.frame != 0 && task.frame <= frames_sent_ && task.rank->client == client;
}

bool Carrier::take_begun(const ClientFrame& frame) {
    if (!is_sent_for(frame.client)) return false;
    carried_.front().has_begun = true;
    return true;
}

bool Carrier::take_result(const ResultFrame& frame) {
    if (!is_sent_for(frame.client)) return false;
    const Carried& task = carried_.front();
    const uint64_t bytes = frame.result == 0 ? bytes_that_come(task.submission) : 0;
    if (header_.payload_bytes != bytes) return false;
    if (frame.result != 0) {
        settle(frame.result, frame.text);
        return true;
    }
    for (uint32_t i = 0; i < task.submission.buffers_count; ++i) {
        if (comes(task.submission.buffers[i])) expect(task.views[i].data, task.submission.buffers[i].bytes);
    }
    add(task.rank->queue->bytes_copied, bytes);
    stage_ = Stage::kPayload;
    return true;
}

// The first of those that are carried is over.
void Carrier::settle(int32_t result, const std::string& why) {
    Carried& task = carried_.front();
    const std::span<const BufferPlace> buffers(task.submission.buffers, task.submission.buffers_count);
    std::string text = why;
    if (result == 0 && !task.rank->memory->close(buffers, task.views, task.copies, &task.ignored, &text))
        result = LONGSHORE_ERR_MEMORY;
    finish_next(*task.rank->queue, task.failed != 0 ? task.failed : result,
                task.failed != 0 ? task.why : text);
    if (task.copies) copies_.push_back(std::move(task.copies));
    carried_.pop_front();
    settle_unsent();
}

void Carrier::settle_unsent() {
    while (!carried_.empty() && carried_.front().frame == 0) {
        const Carried& task = carried_.front();
        finish_next(*task.rank->queue, task.failed, task.why);
        carried_.pop_front();
    }
}

// What had begun there is lost, and not run again. The others are the successor's: they have not been
// started.
int Carrier::lose() {
    const std::string who = "the task process of " + plugin_ + " on " + there_ + " was lost";
    for (const Carried& task : carried_) {
        const uint32_t function = task.submission.function;
        const std::string what = function < table_.functions_count ? table_.names[function] : "a task";
        if (!task.has_begun) continue;
        finish_next(*task.rank->queue, task.failed != 0 ? task.failed : LONGSHORE_ERR_LOST,
                    task.failed != 0 ? task.why : who + " while it ran '" + what + "'");
    }
    for (const auto& rank : ranks_)
        rank->queue->started.store(rank->queue->finished.load(std::memory_order_relaxed),
                                   std::memory_order_release);
    return 1;
}

// Until somebody says something, or there is room for what is to be sent.
void Carrier::sleep() {
    const auto set = [this](uint32_t sleeps) {
        for (const auto& rank : ranks_) rank->queue->process_sleeps.store(sleeps, std::memory_order_seq_cst);
    };
    set(carried_.size() < kCarriedMax ? 1 : 0);
    // Who submits counts first and looks at the flag then.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (find_next() == nullptr) {
        pollfd ready[] = {{doorbell_.get(), POLLIN, 0},
                          {socket_.get(), wanted(!unsent_.empty()), 0},
                          {stream_.get(), wanted(!out_.empty()), 0}};
        poll(ready, 3, -1);
    }
    set(0);
    uint64_t count = 0;
    while (read(doorbell_.get(), &count, sizeof count) > 0) {
    }
}

int Carrier::run() {
    StartTasks start;
    if (!hear_start(&start)) return 1;
    plugin_ = start.plugin;
    plugin_ = plugin_.substr(plugin_.rfind('/') + 1);
    there_ = name_of(start.far);
    std::string error;
    if (!connect(start, &error)) return refuse(error);
    open(start);
    expect(header_bytes_.data(), header_bytes_.size());
    for (;;) {
        if (!hear()) return 0;
        carry_tasks();
        if (!flush() || !receive())
            return is_loaded_ ? lose() : refuse("the task process on " + there_ + " was lost");
        sleep();
    }
}

}  // namespace

int run_carrier(ConnectToDpu to_dpu) {
    prctl(PR_SET_NAME, "longshore-carry");
    signal(SIGPIPE, SIG_IGN);
    return std::make_unique<Carrier>(to_dpu)->run();
}

}  // namespace longshore::tasks
