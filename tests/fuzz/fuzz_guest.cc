// Carriers that say anything to where tasks of other nodes, and of a DPU's hosts, are run (tasks/frames.h):
// to who starts the processes (tasks/guests.h), and to a task process itself (tasks/guest_process.h), which
// runs here with a plug-in of its own. Whatever is said, answers are whole frames in the order of the tasks,
// a result has the bytes that its task asked for, and nothing is left of a stream that has ended.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "conversation.h"
#include "dpu/card/plugin_folders.h"
#include "fabric/shm/socket.h"
#include "tasks/executor.h"
#include "tasks/guest_process.h"
#include "tasks/guests.h"
#include "tests/tasks/played_door.h"

namespace longshore::tasks {
namespace {

using namespace longshore::fuzz;

constexpr size_t kSaidBytesMax = 150'000;    // what a socket takes without anybody reading
constexpr uint64_t kTaskBytesMax = 1 << 20;  // a buffer of gigabytes is filled as it is asked for
uint64_t got_far = 0;

FrameHeader header_of(std::span<const std::byte> frame) {
    FrameHeader header;
    require(frame.size() >= kFrameHeaderBytes && decode_header(frame.first<kFrameHeaderBytes>(), &header));
    return header;
}

OpenFrame open_frame(Choices& choices) {
    OpenFrame frame;
    static constexpr const char* kPlugins[] = {"/p/played_plugin.so", "played_plugin.so", "/p/none.so",
                                               "/p/..", "/"};
    frame.plugin = kPlugins[choices.byte() % std::size(kPlugins)];
    frame.directory = "/";
    frame.cores = "auto";
    frame.environment = {"OMP_NUM_THREADS=2", "LD_PRELOAD=/tmp/x.so", "A", "=",
                         "OMP_TOOL_LIBRARIES=/tmp/x.so"};
    frame.environment.resize(choices.byte() % 6, std::string(choices.byte(), 'x'));
    frame.processes = 1 + choices.byte() % 3;
    frame.index = choices.byte() % (frame.processes + choices.one_in(8));
    frame.threads = 1 + choices.byte() % 2;
    return frame;
}

// --- who starts the processes

class Arrivals {
  public:
    explicit Arrivals(Choices* choices) : choices_(*choices), guests_(make_node()) {
        guests_.open(std::make_unique<PlayedDoor>(&arrived_, NodeId{0}));
    }
    void run() {
        while (!choices_.over()) step();
        for (Fd& end : ends_) hear(end);
        ends_.clear();
        turn();
        guests_.stop();
        require(guests_.is_idle() && waitpid(-1, nullptr, WNOHANG) == -1);
    }

  private:
    TaskGuests::Node make_node() {
        TaskGuests::Node node;
        node.program = "/no/such/program";
        node.place = [this](const char*, uint32_t processes, uint32_t threads, std::string* error) {
            *error = "no cores";
            require(processes >= 1 && processes <= kProcessesMax && threads >= 1 && threads <= kThreadsMax);
            return std::vector<TaskPlace>(choices_.one_in(4) ? processes : 0);
        };
        node.tell = [](const char* text) { require(*text != 0); };
        // As the guard of a DPU does it (dpu/card/task_guard.cc).
        node.admit = [this](OpenFrame* frame, std::string* error) -> int32_t {
            const std::string name = frame->plugin.substr(frame->plugin.rfind('/') + 1);
            const std::string found = find_trusted_plugin({PLAYED_FOLDER}, name, error);
            require(found.empty() ? !error->empty() : found == std::string(PLAYED_FOLDER) + "/" + name);
            for (const std::string& variable : harmless_variables(frame->environment))
                require(variable.starts_with("OMP_") && !variable.starts_with("OMP_TOOL"));
            got_far += 1;
            if (choices_.one_in(4)) return 0;
            *error = "not here";
            return LONGSHORE_ERR_PLUGIN;
        };
        return node;
    }
    void step() {
        if (ends_.empty() || choices_.one_in(4)) return connect();
        Fd& end = ends_[choices_.byte() % ends_.size()];
        if (choices_.one_in(8)) {
            ends_.erase(ends_.begin() + (&end - ends_.data()));
            return turn();
        }
        std::vector<std::byte> said = choices_.one_in(8) ? make_frame(FrameKind::kServe, ClientFrame{1})
                                                         : make_frame(FrameKind::kOpen, open_frame(choices_));
        damage(choices_, &said);
        const size_t first =
            choices_.one_in(4) ? choices_.below(static_cast<uint32_t>(said.size()) + 1) : said.size();
        send(end.get(), said.data(), first, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn();
        if (first == said.size()) return;
        send(end.get(), said.data() + first, said.size() - first, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn();
    }
    void connect() {
        int ends[2];
        if (ends_.size() == 4 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
        arrived_.emplace_back(ends[0]);
        ends_.emplace_back(ends[1]);
    }
    void turn() {
        guests_.turn();
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) require(guests_.reap(pid, status));
    }
    // At most one answer, and it is a refusal: no process here can be started.
    static void hear(const Fd& end) {
        std::vector<std::byte> heard(kFrameHeaderBytes + kFrameBodyBytesMax);
        const ssize_t got = recv(end.get(), heard.data(), heard.size(), MSG_DONTWAIT);
        if (got <= 0) return;
        heard.resize(static_cast<size_t>(got));
        LoadedFrame loaded;
        require(header_of(heard).kind == FrameKind::kLoaded &&
                decode(std::span(heard).subspan(kFrameHeaderBytes), &loaded) && loaded.error != 0 &&
                !loaded.text.empty());
    }

    Choices& choices_;
    std::deque<Fd> arrived_;
    std::vector<Fd> ends_;
    TaskGuests guests_;
};

// --- a task process

// What a carrier says to one, all at once.
class Carrier {
  public:
    explicit Carrier(Choices* choices) : choices_(*choices) {}
    std::vector<std::byte> speak() {
        if (!choices_.one_in(16)) say(make_frame(FrameKind::kServe, ClientFrame{1}), {});
        while (!choices_.over() && said_.size() < kSaidBytesMax) step();
        return std::move(said_);
    }

  private:
    void step() {
        switch (choices_.byte() % 12) {
            case 0:
                return say(make_frame(FrameKind::kServe, ClientFrame{choices_.byte() % 4u}), {});
            case 1:
                return say(make_frame(FrameKind::kLeave, ClientFrame{choices_.byte() % 4u}), {});
            case 2:
                return say(last_, last_payload_);
            case 3:
            case 4:
                return say_task(kept());
            default:
                return say_task(task());
        }
    }
    Submission task() {
        Submission s;
        s.function = choices_.one_in(8) ? static_cast<uint32_t>(choices_.number()) : choices_.byte() % 4;
        s.arguments_bytes = choices_.byte() % 16;
        s.buffers_count = choices_.byte() % 5;
        for (uint32_t i = 0; i < s.buffers_count; ++i) {
            BufferPlace& buffer = s.buffers[i];
            buffer.access = 1 + choices_.byte() % 4;
            buffer.bytes = choices_.one_in(8) ? choices_.below(60'000) : choices_.byte();
            if (buffer.access == LONGSHORE_KEPT)
                buffer.address = choices_.byte() % 4, buffer.offset = choices_.byte();
            if (choices_.one_in(16)) buffer.offset = choices_.number();
            if (choices_.one_in(32)) buffer.bytes = choices_.number();
        }
        return s;
    }
    // To keep, to change or to forget a buffer.
    Submission kept() {
        Submission s;
        s.function = choices_.one_in(4) ? kForget : kKeep;
        KeptPart part{choices_.byte() % 4u, 1 + choices_.below(600), 0, choices_.byte() % 2u};
        s.arguments_bytes = sizeof part;
        s.buffers_count = s.function == kKeep ? 1 : 0;
        s.buffers[0] = {0, 0, part.bytes, LONGSHORE_IN, 0};
        if (part.is_whole == 0) {
            part.offset = choices_.byte();
            s.buffers[0].bytes = 1 + choices_.byte();
        }
        if (choices_.one_in(8)) part.offset = choices_.number();
        if (choices_.one_in(8)) part.bytes = choices_.number();
        memcpy(s.arguments, &part, sizeof part);
        return s;
    }
    void say_task(const Submission& submission) {
        TaskFrame frame{choices_.one_in(16) ? choices_.byte() % 4u : 1u, submission};
        const uint64_t bytes = bytes_that_go(submission);
        if (bytes > kTaskBytesMax) return;
        std::vector<std::byte> payload(choices_.one_in(64) ? choices_.byte() : bytes, std::byte{5});
        say(make_frame(FrameKind::kTask, frame, payload.size()), payload);
    }
    void say(std::vector<std::byte> frame, std::vector<std::byte> payload) {
        last_ = frame;
        last_payload_ = payload;
        damage(choices_, &frame);
        TaskFrame task;
        if (frame.size() > kFrameHeaderBytes && decode(std::span(frame).subspan(kFrameHeaderBytes), &task) &&
            bytes_that_go(task.submission) + bytes_that_come(task.submission) > kTaskBytesMax)
            return;
        append(&said_, frame);
        append(&said_, payload);
    }

    Choices& choices_;
    std::vector<std::byte> said_, last_, last_payload_;
};

// Whole frames, but perhaps for the last, each of a kind that a task process says.
void check_answers(std::span<const std::byte> heard) {
    bool is_first = true, has_begun = false;
    while (heard.size() >= kFrameHeaderBytes) {
        const FrameHeader header = header_of(heard);
        heard = heard.subspan(kFrameHeaderBytes);
        if (heard.size() < header.body_bytes) return;
        const auto body = heard.first(header.body_bytes);
        heard = heard.subspan(header.body_bytes);
        require((header.kind == FrameKind::kLoaded) == is_first);
        is_first = false;
        LoadedFrame loaded;
        ClientFrame client;
        ServingFrame serving;
        ResultFrame result;
        switch (header.kind) {
            case FrameKind::kLoaded:
                require(decode(body, &loaded) && loaded.error == 0 && loaded.table.functions_count != 0);
                break;
            case FrameKind::kServing:
                require(decode(body, &serving) && !has_begun);
                break;
            case FrameKind::kLeft:
                require(decode(body, &client) && !has_begun);
                break;
            case FrameKind::kBegun:
                require(decode(body, &client) && !has_begun);
                has_begun = true;
                break;
            default:
                require(header.kind == FrameKind::kResult && decode(body, &result));
                require(has_begun || result.result != 0);
                require(header.payload_bytes == 0 || result.result == 0);
                got_far += has_begun;
                has_begun = false;
        }
        if (heard.size() < header.payload_bytes) return;
        heard = heard.subspan(header.payload_bytes);
    }
}

void run_guest(Choices& choices) {
    int control[2], stream[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) != 0)
        return;
    const Fd starter(control[0]), carrier(stream[0]);
    {
        const Fd near(control[1]), far(stream[1]);
        StartTasks start;
        snprintf(start.plugin, sizeof start.plugin, "%s/played_plugin.so", PLAYED_FOLDER);
        snprintf(start.directory, sizeof start.directory, ".");
        require(send_packet(starter, &start, sizeof start, std::vector<int>{far.get()}) == Io::kOk);
        const std::vector<std::byte> said = Carrier(&choices).speak();
        send(carrier.get(), said.data(), said.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(carrier.get(), SHUT_WR);
        require(dup2(near.get(), kServiceControlFd) == kServiceControlFd);
    }
    std::vector<std::byte> heard;
    std::thread listener([&] {
        std::byte bytes[64 * 1024];
        for (ssize_t got; (got = recv(carrier.get(), bytes, sizeof bytes, 0)) > 0;)
            heard.insert(heard.end(), bytes, bytes + got);
    });
    require(run_guest_process() == 0);
    listener.join();
    check_answers(heard);
}

// The place of a task process's control socket stays free for it.
void keep_control_place() {
    static const bool is_kept = [] {
        const Fd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (fcntl(kServiceControlFd, F_GETFD) < 0) dup2(file.get(), kServiceControlFd);
        return true;
    }();
    require(is_kept);
}

void try_input(Choices choices) {
    keep_control_place();
    if (choices.one_in(4))
        Arrivals(&choices).run();
    else
        run_guest(choices);
}

}  // namespace
}  // namespace longshore::tasks

extern "C" uint64_t fuzz_conversations_that_got_far() {
    return longshore::tasks::got_far;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    longshore::tasks::try_input(longshore::fuzz::Choices(data, size));
    return 0;
}
