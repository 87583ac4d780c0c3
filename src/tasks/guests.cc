#include "tasks/guests.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "fabric/shm/child.h"

namespace longshore::tasks {
namespace {

constexpr size_t kArrivalsMax = 256, kGuestsMax = 4096;
constexpr size_t kLineBytesMax = 120;  // with who prints it, it fits a report's text
constexpr int kReadsPerTurn = 16;

bool watch(const Fd& epoll, int fd, uint32_t events = EPOLLIN) {
    epoll_event event{};
    event.events = events;
    return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

TaskGuests::TaskGuests(Node node) : node_(std::move(node)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

TaskGuests::~TaskGuests() {
    stop();
}

void TaskGuests::open(std::unique_ptr<StreamDoor> door) {
    door_ = std::move(door);
    watch(epoll_, door_->fd());
}

void TaskGuests::turn() {
    if (!door_) return;
    door_->turn();
    NodeId from;
    while (Fd stream = door_->take(&from)) {
        if (arrivals_.size() >= kArrivalsMax || !watch(epoll_, stream.get())) continue;
        Arrival& arrival = arrivals_.emplace_back();
        arrival.stream = std::move(stream);
        arrival.from = from;
        arrival.said.resize(kFrameHeaderBytes);
    }
    std::erase_if(arrivals_, [this](Arrival& arrival) { return !hear(arrival); });
    std::erase_if(guests_, [this](Guest& guest) { return !look_at(guest); });
}

void TaskGuests::show_line(Guest& guest) const {
    const std::string line = std::exchange(guest.line, {});
    if (guest.lines > kLinesMax) return;
    node_.tell((++guest.lines <= kLinesMax ? guest.name + ", prints: " + line
                                           : guest.name + ", prints more than is shown")
                   .c_str());
}

void TaskGuests::hear_output(Guest& guest) const {
    char bytes[4096];
    ssize_t got = 0;
    for (int i = 0; i < kReadsPerTurn && (got = read(guest.output.get(), bytes, sizeof bytes)) > 0; ++i) {
        for (const char byte : std::span(bytes, static_cast<size_t>(got))) {
            const bool is_control = static_cast<unsigned char>(byte) < ' ' && byte != '\n' && byte != '\t';
            if (byte != '\n') guest.line += is_control ? '?' : byte;
            if (byte == '\n' || guest.line.size() == kLineBytesMax) show_line(guest);
        }
    }
    // The end: neither the process nor what it has started holds it.
    if (got == 0) guest.output.reset();
    if (!guest.output && !guest.line.empty()) show_line(guest);
}

// False: its carrier has heard all, and it is over.
bool TaskGuests::look_at(Guest& guest) const {
    if (guest.output) hear_output(guest);
    pollfd gone{guest.stream.get(), POLLRDHUP, 0};
    if (poll(&gone, 1, 0) != 1) return true;
    if (guest.pid > 0 && !guest.is_useless) {
        kill(guest.pid, SIGKILL);
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, guest.stream.get(), nullptr);
        guest.is_useless = true;
    }
    return guest.pid > 0;
}

// Its first frame, and nothing that follows. False: there is nothing more to hear.
bool TaskGuests::hear(Arrival& arrival) {
    for (;;) {
        if (arrival.bytes == kFrameHeaderBytes && arrival.said.size() == kFrameHeaderBytes) {
            const std::span<const std::byte, kFrameHeaderBytes> header(arrival.said.data(),
                                                                       kFrameHeaderBytes);
            if (!decode_header(header, &arrival.header) || arrival.header.kind != FrameKind::kOpen)
                return false;
            arrival.said.resize(kFrameHeaderBytes + arrival.header.body_bytes);
        }
        if (arrival.bytes == arrival.said.size()) break;
        const ssize_t got = recv(arrival.stream.get(), arrival.said.data() + arrival.bytes,
                                 arrival.said.size() - arrival.bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got <= 0) return false;
        arrival.bytes += static_cast<size_t>(got);
    }
    OpenFrame frame;
    if (decode(std::span(arrival.said).subspan(kFrameHeaderBytes), &frame)) start(arrival, frame);
    return false;
}

void TaskGuests::start(Arrival& arrival, OpenFrame& frame) {
    LoadedFrame refusal;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, arrival.stream.get(), nullptr);
    if (node_.admit) refusal.error = node_.admit(&frame, &refusal.text);
    if (refusal.error == 0 && start_process(arrival, frame, &refusal.text)) return;
    if (refusal.error == 0) refusal.error = LONGSHORE_ERR_NO_PROCESS;
    const std::vector<std::byte> said = make_frame(FrameKind::kLoaded, refusal);
    send(arrival.stream.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // Closed when its carrier has gone: what that has sent meanwhile and nobody reads would have the system
    // throw the answer away.
    shutdown(arrival.stream.get(), SHUT_WR);
    if (watch(epoll_, arrival.stream.get(), EPOLLRDHUP))
        guests_.emplace_back().stream = std::move(arrival.stream);
}

bool TaskGuests::start_process(Arrival& arrival, const OpenFrame& frame, std::string* error) {
    if (guests_.size() >= kGuestsMax) {
        *error = "there are too many task processes";
        return false;
    }
    const std::vector<TaskPlace> places =
        node_.place(frame.cores.c_str(), frame.processes, frame.threads, error);
    if (places.size() != frame.processes) return false;
    std::vector<std::string> variables = frame.environment;
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string name = frame.plugin.substr(frame.plugin.rfind('/') + 1), index = std::to_string(frame.index),
                node = std::to_string(node_.node), from = std::to_string(arrival.from.value);
    char program[] = "longshored:", role[] = "guest", node_word[] = "node", for_word[] = "for";
    char* const arguments[] = {program,     role,     name.data(), index.data(), node_word,
                               node.data(), for_word, from.data(), nullptr};
    Child child =
        start_child(node_.program.c_str(), arguments, environment.data(), CpuMask(places[frame.index].cpus));
    if (child.pid < 0) {
        *error = std::string("no task process can be started: ") + strerror(errno);
        return false;
    }
    StartTasks message;
    snprintf(message.plugin, sizeof message.plugin, "%s", frame.plugin.c_str());
    snprintf(message.directory, sizeof message.directory, "%s", frame.directory.c_str());
    message.plugin_bytes = frame.plugin_bytes;
    message.plugin_hash = frame.plugin_hash;
    Guest& guest = guests_.emplace_back();
    guest.pid = child.pid;
    guest.name = "task process " + index + " of " + name + " on node " + node + ", for node " + from;
    guest.control = std::move(child.control);
    std::vector<int> give{arrival.stream.get()};
    int ends[2];
    Fd print_end;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        guest.output = Fd(ends[0]);
        print_end = Fd(ends[1]);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);  // this end alone: who prints may wait until there is room
        if (watch(epoll_, ends[0])) give.push_back(ends[1]);
    }
    message.has_stderr = give.size() == 2 ? 1 : 0;
    // Where more descriptors are on their way to others than the system has room for there is no process.
    if (send_packet(guest.control, &message, sizeof message, give) != Io::kOk) {
        *error = std::string("a task process cannot be told what to do: ") + strerror(errno);
        kill(guest.pid, SIGKILL);
        guest.is_useless = true;
        return false;
    }
    guest.stream = std::move(arrival.stream);
    watch(epoll_, guest.stream.get(), EPOLLRDHUP);
    return true;
}

bool TaskGuests::reap(pid_t pid, int status) {
    const auto at =
        std::find_if(guests_.begin(), guests_.end(), [&](const Guest& one) { return one.pid == pid; });
    if (at == guests_.end()) return false;
    at->pid = 0;
    if (at->output) hear_output(*at);
    if (!at->is_useless && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        node_.tell((at->name + ", was lost (" + describe_end(status) + ")").c_str());
    // Its carrier reads all that is on its way before it sees this, and comes again.
    shutdown(at->stream.get(), SHUT_WR);
    if (at->is_useless) guests_.erase(at);
    return true;
}

void TaskGuests::stop() {
    for (const Guest& guest : guests_) {
        if (guest.pid > 0) kill(guest.pid, SIGKILL);
    }
    for (const Guest& guest : guests_) {
        if (guest.pid > 0) waitpid(guest.pid, nullptr, 0);
    }
    guests_.clear();
    arrivals_.clear();
}

}  // namespace longshore::tasks
