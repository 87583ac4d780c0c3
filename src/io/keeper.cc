#include "io/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fabric/shm/child.h"
#include "io/rings.h"

namespace longshore::io {
namespace {

constexpr uint64_t kRingBytesMax = uint64_t{1} << 40;
constexpr uint64_t kWriterNumber = UINT64_MAX;
// Descriptors that files are not given: to start a writer again, and for the supervisor's other work.
constexpr uint64_t kSpareDescriptors = 32;

// The system gives the lowest number that is free: one so high says that nearly all are taken. The writer has
// the same limit and fewer descriptors.
bool is_near_limit(int fd) {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           static_cast<uint64_t>(fd) + kSpareDescriptors >= limit.rlim_cur;
}

std::string megabytes(uint64_t bytes) {
    return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

}  // namespace

struct Keeper::Client {
    uint32_t local_rank = 0;
    Fd socket, ring;
    std::map<uint64_t, std::pair<HoldFile, Fd>> files;  // by number, until they are written
    bool is_served = false;                             // the writer has its ring
};

Keeper::Keeper(Node node) : node_(std::move(node)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Keeper::~Keeper() {
    stop();
}

bool Keeper::watch(const Fd& fd, uint64_t number) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
}

// Where nobody reads it, it is dropped.
void Keeper::say(const std::string& line) {
    pollfd ready{errors_.get(), POLLOUT, 0};
    if (errors_ && poll(&ready, 1, 0) == 1) dprintf(errors_.get(), "longshore: %s\n", line.c_str());
}

// --- ranks

bool Keeper::make_board(uint64_t ring_bytes) {
    if (board_ != nullptr) return ring_bytes == ring_bytes_;
    if (ring_bytes == 0 || ring_bytes % kRingUnit != 0 || ring_bytes > kRingBytesMax) return false;
    const uint64_t bytes = board_bytes(node_.rank_count);
    board_file_ = make_memory_file("longshore-io", bytes);
    if (!board_file_) return false;
    mapping_ = Mapping::shared(board_file_.get(), bytes);
    if (!mapping_) return false;
    board_ = reinterpret_cast<Board*>(mapping_.data());
    board_->queues_count.store(node_.rank_count);
    board_->ring_bytes.store(ring_bytes);
    ring_bytes_ = ring_bytes;
    return true;
}

void Keeper::open(Fd socket, pid_t pid, const OpenQueue& request, std::vector<Fd> descriptors) {
    QueueOpened answer;
    const auto refuse = [&](const char* why) {
        snprintf(answer.text, sizeof answer.text, "%s: %s", why, strerror(errno));
        send_packet(socket, &answer, sizeof answer);
    };
    errno = EINVAL;
    if (request.local_rank >= node_.rank_count || clients_.contains(request.local_rank) ||
        descriptors.size() != (request.has_stderr != 0 ? 1 : 0))
        return refuse("a queue cannot be opened twice");
    if (!make_board(request.ring_bytes)) return refuse("no memory for what is to be written");
    if (request.has_stderr != 0 && !errors_) errors_ = std::move(descriptors[0]);
    auto client = std::make_unique<Client>();
    client->local_rank = request.local_rank;
    client->ring = make_memory_file("longshore-io-ring", ring_bytes_);
    if (!client->ring) return refuse("no memory for what is to be written");
    client->socket = std::move(socket);
    board_->queues[request.local_rank].pid.store(static_cast<uint32_t>(pid));
    const int give[] = {board_file_.get(), client->ring.get()};
    answer.ok = 1;
    if (writer_ == 0 && restarts_ == 0) start_writer();
    if (writer_ == 0 || !watch(client->socket, client->local_rank) || !hand_to_writer(*client)) {
        answer.ok = 0;
        snprintf(answer.text, sizeof answer.text, "no writer can be started: %s", strerror(errno));
    }
    client->is_served = answer.ok != 0;
    if (send_packet(client->socket, &answer, sizeof answer, give) != Io::kOk || answer.ok == 0) return;
    clients_[client->local_rank] = std::move(client);
}

void Keeper::tell_of_limit() {
    if (has_told_of_limit_) return;
    has_told_of_limit_ = true;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    say("more files are open at once than can be written behind: the limit of open files (RLIMIT_NOFILE) "
        "is " +
        std::to_string(limit.rlim_cur) + "; the program writes the others itself");
}

// What is to be written must not depend on a writer that may end: this process keeps the descriptor, too.
void Keeper::hold(Client& client, HoldFile message, std::vector<Fd> descriptors) {
    message.local_rank = client.local_rank;
    message.error = descriptors.size() == 1 && writer_ > 0 ? 0 : EAGAIN;
    if (descriptors.empty() || is_near_limit(descriptors[0].get())) {
        message.error = EMFILE;
        tell_of_limit();
    }
    // What the writer has no room for now the program writes itself.
    if (message.error == 0) {
        const int give[] = {descriptors[0].get()};
        if (send_packet(control_, &message, sizeof message, give) != Io::kOk) message.error = EAGAIN;
    }
    if (message.error == 0) client.files[message.number] = {message, std::move(descriptors[0])};
    send_packet(client.socket, &message, sizeof message);
}

void Keeper::turn_client(Client& client) {
    for (;;) {
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        const Io io = receive_packet(client.socket, buffer_, sizeof buffer_, &bytes, &descriptors);
        if (io == Io::kAgain) return;
        HoldFile message;
        const bool no_room = io == Io::kClosed && errno == EMFILE;
        if ((io == Io::kOk || no_room) && bytes == sizeof message) {
            memcpy(static_cast<void*>(&message), buffer_, sizeof message);
            if (message.magic == HoldFile::kMagic && message.slot < kFilesMax) {
                hold(client, message, std::move(descriptors));
                continue;
            }
        }
        // The rank is done or gone, and what it has submitted stays. One that does not keep to the protocol
        // opens no more files.
        client.socket.reset();
        return;
    }
}

// --- the writer

bool Keeper::start_writer() {
    char program[] = "longshored:", role[] = "writer", node_word[] = "node";
    std::string node = std::to_string(node_.node);
    char* const arguments[] = {program, role, node_word, node.data(), nullptr};
    char* const environment[] = {nullptr};
    Child child = start_child(node_.program.c_str(), arguments, environment);
    if (child.pid < 0) return false;
    writer_ = child.pid;
    control_ = std::move(child.control);
    StartWriter message;
    message.queues = node_.rank_count;
    message.ring_bytes = ring_bytes_;
    const int give[] = {board_file_.get()};
    if (watch(control_, kWriterNumber) && send_packet(control_, &message, sizeof message, give) == Io::kOk)
        return true;
    kill(writer_, SIGKILL);  // its end is heard of
    return false;
}

// All that its records may name, and then its ring. Waits for the writer, which has nothing else to do.
bool Keeper::hand_to_writer(const Client& client) {
    const auto send = [&](const auto& message, int fd) {
        const int give[] = {fd};
        Io io = Io::kAgain;
        while ((io = send_packet(control_, &message, sizeof message, give)) == Io::kAgain) {
            pollfd ready{control_.get(), POLLOUT, 0};
            poll(&ready, 1, 100);
        }
        return io == Io::kOk;
    };
    for (const auto& [number, file] : client.files) {
        if (!send(file.first, file.second.get())) return false;
    }
    ServeQueue message;
    message.local_rank = client.local_rank;
    return send(message, client.ring.get());
}

// Files that a writer has closed as far as the rank can tell, but was lost before it could say so.
void Keeper::drop_closed(Client& client) const {
    const Queue& queue = board_->queues[client.local_rank];
    std::erase_if(client.files, [&](const auto& one) {
        const Slot& slot = queue.slots[one.second.first.slot];
        const bool is_closed = slot.is_open.load() == 0 && slot.last.load() <= queue.done.load();
        return slot.number.load() != one.first || is_closed;
    });
}

void Keeper::turn_writer() {
    for (;;) {
        size_t bytes = 0;
        const Io io =
            control_ ? receive_packet(control_, buffer_, sizeof buffer_, &bytes, nullptr) : Io::kAgain;
        if (io == Io::kAgain) return;
        if (io == Io::kClosed) {
            if (writer_ > 0) kill(writer_, SIGKILL);  // its end is heard of
            return control_.reset();
        }
        FileWritten message;
        if (bytes != sizeof message) continue;
        const ControlHeader expected = message.header;
        memcpy(static_cast<void*>(&message), buffer_, sizeof message);
        if (memcmp(&message.header, &expected, sizeof expected) != 0) continue;
        const auto at = clients_.find(message.local_rank);
        if (at != clients_.end()) at->second->files.erase(message.number);
    }
}

// Who waits for it hears that it is in vain.
void Keeper::give_up(const std::string& why) {
    board_->is_lost.store(1, std::memory_order_seq_cst);
    wake(board_->events);
    if (waiting() != 0) say(why + ", and " + megabytes(waiting()) + " of files are lost");
}

bool Keeper::reap(pid_t pid, int status) {
    if (pid != writer_ || pid == 0) return false;
    turn_writer();  // what it has said last
    writer_ = 0;
    control_.reset();
    const std::string who = "the writer of files of node " + std::to_string(node_.node) + " was lost (" +
                            (WIFSIGNALED(status) ? "signal " : "exit status ") +
                            std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)) +
                            ")";
    const bool again = restarts_ < node_.restarts_max;
    node_.tell((who + (again ? "; it is started again" : "; it is not started again")).c_str());
    ++restarts_;
    bool started = again && start_writer();
    for (const auto& [local_rank, client] : clients_) {
        drop_closed(*client);
        started = started && hand_to_writer(*client);
    }
    // One that has ended again meanwhile is heard of next.
    if (!started && writer_ == 0) give_up(who);
    return true;
}

// --- the end

uint64_t Keeper::waiting() const {
    uint64_t bytes = 0;
    for (const auto& [local_rank, client] : clients_) {
        const Queue& queue = board_->queues[local_rank];
        if (queue.is_spoilt.load() == 0) bytes += queue.submitted.load() - queue.done.load();
    }
    return bytes;
}

// A rank that ended as it should has told of its own.
void Keeper::say_errors() {
    for (const auto& [local_rank, client] : clients_) {
        const Queue& queue = board_->queues[local_rank];
        for (const Slot& slot : queue.slots) {
            if (slot.number.load() == 0 || slot.error.load() == 0) continue;
            say(std::string(slot.name, strnlen(slot.name, sizeof slot.name)) +
                ": not all of it could be written: " + strerror(slot.error.load()));
        }
    }
}

bool Keeper::finish() {
    if (board_ == nullptr) return false;
    const uint64_t left = waiting(), now = awake_ns();
    if (left == 0 || board_->is_lost.load() != 0) {
        if (is_finishing_) say(left == 0 ? "all is written" : megabytes(left) + " of files are lost");
        say_errors();
        return false;
    }
    if (!is_finishing_) {
        is_finishing_ = true;
        progress_ns_ = now;
        say("the ranks of node " + std::to_string(node_.node) + " have ended; " + megabytes(left) +
            " of their files are still being written");
    }
    uint64_t done = 0;
    for (const auto& [local_rank, client] : clients_) done += board_->queues[local_rank].done.load();
    if (done != done_) progress_ns_ = now;
    done_ = done;
    if (now - progress_ns_ < node_.stuck_ns) return true;
    say("nothing has been written for " + std::to_string(node_.stuck_ns / 1'000'000'000) + " s; " +
        megabytes(left) + " of files are lost");
    say_errors();
    return false;
}

void Keeper::turn() {
    constexpr int kEventsPerTurn = 64;
    epoll_event events[kEventsPerTurn];
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, 0);
    for (int i = 0; i < count; ++i) {
        const uint64_t number = events[i].data.u64;
        if (number == kWriterNumber) {
            turn_writer();
            continue;
        }
        const auto at = clients_.find(static_cast<uint32_t>(number));
        if (at != clients_.end() && at->second->socket) turn_client(*at->second);
    }
}

void Keeper::stop() {
    if (writer_ > 0) {
        kill(writer_, SIGKILL);
        waitpid(writer_, nullptr, 0);
    }
    writer_ = 0;
}

}  // namespace longshore::io
