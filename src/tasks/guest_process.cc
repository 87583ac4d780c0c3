#include "tasks/guest_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fabric/shm/socket.h"
#include "tasks/executor.h"
#include "tasks/frames.h"
#include "tasks/plugin_file.h"
#include "tasks/rank_memory.h"

namespace longshore::tasks {
namespace {

class GuestProcess {
  public:
    int run();

  private:
    bool hear_start(StartTasks* start);
    int load(const StartTasks& start, std::string* error);
    bool receive(void* data, size_t bytes);
    bool skip(uint64_t bytes);
    bool send(const void* data, size_t bytes, bool more = false);
    template <class Frame>
    bool answer(FrameKind kind, const Frame& frame, uint64_t payload_bytes = 0) {
        const std::vector<std::byte> bytes = make_frame(kind, frame, payload_bytes);
        return send(bytes.data(), bytes.size(), payload_bytes != 0);
    }
    bool turn();
    bool serve(const ClientFrame& frame);
    bool leave(const ClientFrame& frame);
    bool run_task(const TaskFrame& frame, uint64_t payload_bytes);
    bool make_room(const Submission& submission, longshore_view* views);
    Executor::Patron* find(uint64_t client);

    Fd stream_;
    Executor executor_;
    std::vector<std::unique_ptr<Executor::Patron>> patrons_;
    Mapping memory_;  // for the buffers of one task
    std::vector<std::byte> body_;
    TaskFrame task_;
};

// The first packet says what this process is for.
bool GuestProcess::hear_start(StartTasks* start) {
    const Fd control(kServiceControlFd);
    std::vector<std::byte> buffer(kControlBytesMax);
    std::vector<Fd> descriptors;
    size_t bytes = 0;
    Io io = Io::kAgain;
    while ((io = receive_packet(control, buffer.data(), buffer.size(), &bytes, &descriptors)) == Io::kAgain) {
        pollfd ready{control.get(), POLLIN, 0};
        poll(&ready, 1, -1);
    }
    if (io != Io::kOk || !take_packet(buffer.data(), bytes, start) ||
        descriptors.size() != 1 + (start->has_stderr != 0))
        return false;
    if (start->has_stderr != 0) {
        dup2(descriptors[1].get(), STDERR_FILENO);
        dup2(descriptors[1].get(), STDOUT_FILENO);
        setvbuf(stdout, nullptr, _IOLBF, 0);  // lines are shown as they are printed
    }
    stream_ = std::move(descriptors[0]);
    start->plugin[kPathBytes - 1] = start->directory[kPathBytes - 1] = 0;
    return fcntl(stream_.get(), F_SETFL, fcntl(stream_.get(), F_GETFL) & ~O_NONBLOCK) == 0;
}

int GuestProcess::load(const StartTasks& start, std::string* error) {
    if (chdir(start.directory) != 0) {
        *error = std::string("cannot go to ") + start.directory + ": " + strerror(errno);
        return LONGSHORE_ERR_NO_PROCESS;
    }
    const PluginFile there{start.plugin_bytes, start.plugin_hash}, here = look_at_plugin(start.plugin);
    if (there != here && there.bytes != 0 && here.bytes != 0) {
        *error = std::string("the plug-in ") + start.plugin + " is another (of " +
                 std::to_string(here.bytes) + " bytes) than on the node of the ranks (of " +
                 std::to_string(there.bytes) + "): install the same on both";
        return LONGSHORE_ERR_PLUGIN;
    }
    return executor_.plugin().load(start.plugin, error);
}

// False: the stream has ended.
bool GuestProcess::receive(void* data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        const ssize_t got = recv(stream_.get(), static_cast<std::byte*>(data) + at, bytes - at, MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += static_cast<size_t>(got);
    }
    return true;
}

bool GuestProcess::skip(uint64_t bytes) {
    std::byte ignored[16 * 1024];
    while (bytes != 0) {
        const size_t piece = std::min<uint64_t>(bytes, sizeof ignored);
        if (!receive(ignored, piece)) return false;
        bytes -= piece;
    }
    return true;
}

bool GuestProcess::send(const void* data, size_t bytes, bool more) {
    for (size_t at = 0; at < bytes;) {
        const ssize_t sent = ::send(stream_.get(), static_cast<const std::byte*>(data) + at, bytes - at,
                                    MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += static_cast<size_t>(sent);
    }
    return true;
}

Executor::Patron* GuestProcess::find(uint64_t client) {
    const auto at = std::find_if(patrons_.begin(), patrons_.end(),
                                 [&](const auto& patron) { return patron->client == client; });
    return at == patrons_.end() ? nullptr : at->get();
}

bool GuestProcess::serve(const ClientFrame& frame) {
    if (find(frame.client) != nullptr) return false;
    auto patron = std::make_unique<Executor::Patron>();
    patron->client = frame.client;
    ServingFrame said{frame.client, 0, ""};
    said.error = executor_.plugin().open(&patron->state, &said.text);
    if (said.error == 0) patrons_.push_back(std::move(patron));
    return answer(FrameKind::kServing, said);
}

// One that was not served leaves, too.
bool GuestProcess::leave(const ClientFrame& frame) {
    if (Executor::Patron* const patron = find(frame.client)) {
        executor_.plugin().close(patron->state);
        std::erase_if(patrons_, [&](const auto& one) { return one.get() == patron; });
    }
    return answer(FrameKind::kLeft, frame);
}

// Where the buffers of a task are until the next one. False: there is no memory for them.
bool GuestProcess::make_room(const Submission& submission, longshore_view* views) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < submission.buffers_count; ++i) {
        const BufferPlace& buffer = submission.buffers[i];
        views[i] = {nullptr, buffer.bytes};
        if (buffer.access != LONGSHORE_KEPT) bytes += room_of_copy(buffer.bytes);
    }
    if (bytes > (memory_ ? memory_.size() : 0)) {
        memory_.reset();
        memory_ = Mapping::accounted(std::max<uint64_t>(bytes, 64 * 1024), false);
        if (!memory_) return false;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < submission.buffers_count; ++i) {
        const BufferPlace& buffer = submission.buffers[i];
        if (buffer.access == LONGSHORE_KEPT || buffer.bytes == 0) continue;
        views[i].data = memory_.data() + at;
        at += room_of_copy(buffer.bytes);
        // Nothing of another task, whose rank may be another.
        if (!goes(buffer)) memset(views[i].data, 0, buffer.bytes);
    }
    return true;
}

bool GuestProcess::run_task(const TaskFrame& frame, uint64_t payload_bytes) {
    const Submission& submission = frame.submission;
    Executor::Patron* const patron = find(frame.client);
    if (patron == nullptr || payload_bytes != bytes_that_go(submission)) return false;
    ResultFrame said{frame.client, 0, ""};
    longshore_view views[LONGSHORE_BUFFERS_MAX];
    said.result = executor_.check(submission, &said.text);
    if (said.result == 0 && !make_room(submission, views)) {
        Executor::give_up(*patron, submission);
        said.text = "there is no memory for its buffers on the other node";
        said.result = LONGSHORE_ERR_MEMORY;
    }
    if (said.result != 0) return skip(payload_bytes) && answer(FrameKind::kResult, said);
    for (uint32_t i = 0; i < submission.buffers_count; ++i) {
        if (goes(submission.buffers[i]) && !receive(views[i].data, submission.buffers[i].bytes)) return false;
    }
    if (!answer(FrameKind::kBegun, ClientFrame{frame.client})) return false;
    said.result = executor_.run(*patron, submission, views, &said.text);
    const uint64_t bytes = said.result == 0 ? bytes_that_come(submission) : 0;
    if (!answer(FrameKind::kResult, said, bytes)) return false;
    uint64_t left = bytes;
    for (uint32_t i = 0; i < submission.buffers_count && left != 0; ++i) {
        const BufferPlace& buffer = submission.buffers[i];
        if (!comes(buffer)) continue;
        left -= buffer.bytes;
        if (!send(views[i].data, buffer.bytes, left != 0)) return false;
    }
    return true;
}

// The next frame. False: the stream has ended, or carries what it may not.
bool GuestProcess::turn() {
    FrameHeaderBytes bytes;
    FrameHeader header;
    if (!receive(bytes.data(), bytes.size()) || !decode_header(bytes, &header)) return false;
    body_.resize(header.body_bytes);
    if (!receive(body_.data(), body_.size())) return false;
    ClientFrame client;
    switch (header.kind) {
        case FrameKind::kServe:
            return decode(body_, &client) && serve(client);
        case FrameKind::kLeave:
            return decode(body_, &client) && leave(client);
        case FrameKind::kTask:
            return decode(body_, &task_) && run_task(task_, header.payload_bytes);
        default:
            return false;
    }
}

int GuestProcess::run() {
    StartTasks start;
    if (!hear_start(&start)) return 1;
    LoadedFrame loaded;
    loaded.error = load(start, &loaded.text);
    loaded.table = executor_.plugin().table();
    if (!answer(FrameKind::kLoaded, loaded)) return 0;
    // What is left unread would have the system throw the answer away.
    while (loaded.error != 0 && skip(1)) {
    }
    while (loaded.error == 0 && turn()) {
    }
    return 0;
}

}  // namespace

int run_guest_process() {
    prctl(PR_SET_NAME, "longshore-task");
    signal(SIGPIPE, SIG_IGN);
    return GuestProcess().run();
}

}  // namespace longshore::tasks
