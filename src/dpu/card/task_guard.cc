#include "dpu/card/task_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "dpu/card/own_role.h"
#include "dpu/card/plugin_folders.h"
#include "tasks/guests.h"

namespace longshore {
namespace {

constexpr int kStreamFd = 3;
constexpr int kUnusedFd = 64;

// The door of a house of one: its stream is there already.
class OneStream final : public StreamDoor {
  public:
    explicit OneStream(Fd stream) : stream_(std::move(stream)) {}
    int fd() const override { return -1; }
    void turn() override {}
    Fd take(NodeId* from) override {
        *from = NodeId{0};
        return std::move(stream_);
    }

  private:
    Fd stream_;
};

int32_t admit(const std::vector<std::string>& folders, tasks::OpenFrame* frame, std::string* error) {
    const std::string name = frame->plugin.substr(frame->plugin.rfind('/') + 1);
    frame->plugin = find_trusted_plugin(folders, name, error);
    frame->directory = "/";
    frame->environment = harmless_variables(frame->environment);
    frame->plugin_bytes = frame->plugin_hash = 0;  // of the host's file, which may be for another processor
    return frame->plugin.empty() ? LONGSHORE_ERR_PLUGIN : 0;
}

Fd take_signals() {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    return Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

tasks::TaskGuests::Node make_node(std::vector<std::string> folders) {
    tasks::TaskGuests::Node node;
    node.program = own_role_program();
    node.place = [](const char*, uint32_t processes, uint32_t, std::string*) {
        return std::vector<tasks::TaskPlace>(processes);  // wherever the system puts them
    };
    node.tell = [](const char* text) { fprintf(stderr, "longshored: %s\n", text); };
    node.admit = [folders = std::move(folders)](tasks::OpenFrame* frame, std::string* error) {
        return admit(folders, frame, error);
    };
    return node;
}

}  // namespace

int exec_task_guard(SessionStream stream, const SessionTasks& tasks,
                    const std::vector<std::string>& folders) {
    const Fd socket = stream.take_socket();
    const int far = fcntl(socket.get(), F_DUPFD_CLOEXEC, kUnusedFd);
    std::string limit = std::to_string(tasks.limit_s);
    std::vector<std::string> words{"longshored:", "task-guard", limit};
    words.insert(words.end(), folders.begin(), folders.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (far >= 0 && dup2(far, kStreamFd) >= 0) execve(own_role_program(), arguments.data(), environ);
    fprintf(stderr, "longshored: a task process cannot be started: %s\n", strerror(errno));
    return 1;
}

int run_task_guard(std::span<char* const> arguments) {
    prctl(PR_SET_NAME, "longshore-guard");
    signal(SIGPIPE, SIG_IGN);
    Fd socket(kStreamFd);
    if (arguments.size() < 2 || fcntl(socket.get(), F_GETFD) < 0) {
        fprintf(stderr, "longshored: a task-guard is started by 'longshored listen' alone\n");
        return 2;
    }
    const Fd signals = take_signals();
    SessionStream stream(std::move(socket), static_cast<uint32_t>(strtoul(arguments[0], nullptr, 10)));
    stream.send(SessionKind::kWelcome, SessionWelcome{true, ""});
    if (!signals || !stream.open() || !stream.flushed()) return 1;
    tasks::TaskGuests guests(make_node({arguments.begin() + 1, arguments.end()}));
    guests.open(std::make_unique<OneStream>(stream.take_socket()));
    do {
        guests.turn();
        if (guests.is_idle()) break;
        pollfd ready[] = {{guests.fd(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
        poll(ready, 2, -1);
        signalfd_siginfo info;
        while (read(signals.get(), &info, sizeof info) > 0) {
        }
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) guests.reap(pid, status);
    } while (!guests.is_idle());
    return 0;
}

}  // namespace longshore
