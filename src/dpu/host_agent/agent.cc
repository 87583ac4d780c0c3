#include "dpu/host_agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dpu/host_agent/agent_ranks.h"
#include "dpu/host_agent/answer_send.h"
#include "dpu/transport/probe.h"
#include "fabric/descriptors.h"
#include "fabric/network.h"
#include "service/placement.h"
#include "service/starter.h"
#include "tasks/pools.h"

namespace longshore {
namespace {

constexpr int kStepsPerTurn = 64;
constexpr int kLookMs = 500;    // at what nothing wakes for
constexpr unsigned kEndS = 10;  // for letting go of all that the network has

class Agent {
  public:
    explicit Agent(const AgentParameters& parameters) : p_(parameters) {}
    bool start(ServiceReady* ready);
    int run(const Fd& starter);
    std::span<const std::byte> address() const { return network_->address(); }

  private:
    bool open_network(std::string* error, std::string* why_not);
    bool open_to_tasks();
    bool find_task_node(const char* wanted, tasks::FarNode* far, std::string* error) const;
    std::unique_ptr<AgentCopier> start_copier(uint32_t rank, const std::vector<pid_t>& all);
    void open_pool(Fd socket, pid_t pid, const tasks::OpenPool& request, std::vector<Fd> descriptors);
    void reap();
    bool watch(int fd, uint32_t events);
    void turn_ranks();

    AgentParameters p_;
    std::vector<int> cpus_;  // that this process may use
    SocketName name_;
    Token token_{};
    Fd listener_, clients_ready_;
    Mapping probed_;
    ExportProbe probe_;
    std::unique_ptr<AgentRanks> ranks_;
    std::unique_ptr<MemoryAgent> network_;  // goes before the memory that it has open
    Fd signals_, errors_;                   // errors_: stderr of the first rank that has opened a pool
    std::unique_ptr<tasks::TaskPools> tasks_;
};

bool Agent::start(ServiceReady* ready) {
    const auto fail = [&](const std::string& why) {
        why.copy(ready->reason, sizeof ready->reason - 1);
        return false;
    };
    outlive_peers();
    cpus_ = reset_affinity();
    raise_descriptor_limit();  // two for each rank
    std::string error, why_not;
    // Before the network's threads are there, which would get the signal.
    if (!open_to_tasks()) return fail(std::string("no signalfd: ") + strerror(errno));
    if (!open_network(&error, &why_not)) return fail(error);
    if (address().size() > kAddressBytesMax)
        return fail("the network's addresses are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)");
    if (!make_secret(&name_, &token_)) return fail("no random numbers");
    listener_ = listen_at(name_);
    clients_ready_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    if (!listener_ || !clients_ready_ || !watch(listener_.get(), EPOLLIN))
        return fail(std::string("cannot listen: ") + strerror(errno));
    ranks_ = std::make_unique<AgentRanks>(
        network_.get(), token_, [this](const Fd& fd, uint32_t events) { return watch(fd.get(), events); },
        [this](Fd socket, pid_t pid, const tasks::OpenPool& request, std::vector<Fd> descriptors) {
            open_pool(std::move(socket), pid, request, std::move(descriptors));
        },
        [this](uint32_t rank, const std::vector<pid_t>& all) { return start_copier(rank, all); });
    ready->name = name_;
    ready->token = token_;
    ready->probe = probe_;
    why_not.copy(ready->reason, sizeof ready->reason - 1);
    return true;
}

// One that exports memory if it is to and can; else `why_not`.
bool Agent::open_network(std::string* error, std::string* why_not) {
    const NetworkPart* const part = load_own_network(NetworkKind::kUcx, error);
    if (part == nullptr) return false;
    if (p_.exports != 0) network_ = part->open_agent(true, why_not);
    if (network_ && !probe_.set(make_export_probe(*network_, &probed_, why_not))) probe_ = {};
    if (probe_.bytes == 0) network_.reset();
    if (!network_) network_ = part->open_agent(false, error);
    return network_ != nullptr;
}

// Its processes here are carriers; the task processes are on the DPU.
bool Agent::open_to_tasks() {
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    signals_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    tasks::TaskPools::Node node;
    node.rank_count = static_cast<uint16_t>(std::clamp<uint32_t>(p_.rank_count, 1, UINT16_MAX));
    node.restarts_max = p_.restarts_max;
    node.program = own_program();
    node.place = [](const char*, uint32_t processes, uint32_t, std::string*) {
        return std::vector<tasks::TaskPlace>(processes);
    };
    node.find_node = [this](const char* wanted, tasks::FarNode* far, std::string* error) {
        return find_task_node(wanted, far, error);
    };
    node.tell = [this](const char* text) {
        if (errors_) dprintf(errors_.get(), "longshore: %s\n", text);
    };
    tasks_ = std::make_unique<tasks::TaskPools>(std::move(node));
    return static_cast<bool>(signals_);
}

bool Agent::find_task_node(const char* wanted, tasks::FarNode* far, std::string* error) const {
    const std::string name = wanted;
    if (name != "dpu") {
        *error =
            "LONGSHORE_TASK_NODE=" + name + ": tasks of a job with LONGSHORE_DPU run on its DPU (dpu) alone";
        return false;
    }
    if (p_.tls != 0) {
        *error =
            "LONGSHORE_TASK_NODE=dpu: what goes to a DPU is not encrypted, and "
            "LONGSHORE_NETWORK_SECURITY=tls "
            "wants all to be";
        return false;
    }
    far->is_far = far->is_dpu = 1;
    far->limit_s = p_.limit_s;
    snprintf(far->dpu, sizeof far->dpu, "%s", p_.dpu);
    far->job = p_.job;
    far->job_token = p_.job_token;
    return true;
}

void Agent::open_pool(Fd socket, pid_t pid, const tasks::OpenPool& request, std::vector<Fd> descriptors) {
    if (!errors_ && request.has_stderr != 0 && !descriptors.empty())
        errors_ = Fd(fcntl(descriptors.back().get(), F_DUPFD_CLOEXEC, 0));
    tasks_->open(std::move(socket), pid, request, std::move(descriptors));
}

void Agent::reap() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0;) tasks_->reap(child, status);
}

bool Agent::watch(int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    return epoll_ctl(clients_ready_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ||
           (errno == EEXIST && epoll_ctl(clients_ready_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

// Where a core has nothing else to do. All ranks of the machine have said hello when the first wants this.
std::unique_ptr<AgentCopier> Agent::start_copier(uint32_t rank, const std::vector<pid_t>& all) {
    const bool by_cores = p_.copying == AgentCopying::kWhereACoreIsSpare;
    const bool copies = by_cores ? count_spare_cpus(all, cpus_) != 0 : p_.copying == AgentCopying::kAlways;
    if (!copies) return nullptr;
    return std::make_unique<AgentCopier>(p_, rank, [this](int fd, bool for_writing) {
        return watch(fd, for_writing ? EPOLLIN | EPOLLOUT : EPOLLIN);
    });
}

void Agent::turn_ranks() {
    for (int i = 0; i < kAcceptedPerTurn; ++i) {
        Fd socket = accept_from(listener_);
        if (!socket) break;
        ranks_->add(std::move(socket));
    }
    ranks_->turn();
}

// `starter`: a pipe whose other end the starting rank holds as long as it may still connect.
int Agent::run(const Fd& starter) {
    const uint64_t give_up_ns = awake_ns() + p_.limit_s * 2'000'000'000ull;
    for (;;) {
        int steps = 0;
        while (steps < kStepsPerTurn && network_->progress()) ++steps;
        const bool idle = !ranks_->has_copies() && steps < kStepsPerTurn && network_->arm();
        const bool looks = ranks_->ever() == 0 || ranks_->has_impatient();
        pollfd ready[] = {{network_->event_fd(), POLLIN, 0},
                          {clients_ready_.get(), POLLIN, 0},
                          {signals_.get(), POLLIN, 0},
                          {tasks_->fd(), POLLIN, 0},
                          {starter.get(), 0, 0}};
        // Once somebody has come, the starter is a rank like others.
        poll(ready, ranks_->ever() == 0 ? 5 : 4, !idle ? 0 : looks ? kLookMs : -1);
        if (ready[2].revents != 0) reap();
        if (ready[3].revents != 0) tasks_->turn();
        if (ready[1].revents != 0 || looks || ranks_->has_copies()) turn_ranks();
        if (ranks_->now() != 0) continue;
        if (ranks_->ever() != 0 || ready[4].revents != 0 || awake_ns() > give_up_ns) return 0;
    }
}

}  // namespace

int run_agent() {
    AgentParameters parameters;
    Starter starter;
    if (!starter.read_parameters(&parameters, sizeof parameters)) return 2;
    ServiceReady ready;
    Agent agent(parameters);
    ready.ok = agent.start(&ready);
    const bool told = starter.tell(ready, ready.ok ? agent.address() : std::span<const std::byte>{});
    const int status = told && ready.ok ? agent.run(starter.pipe()) : 1;
    // When UCX 1.13 lets a TCP connection go whose other end was killed, it may send to it without end.
    alarm(kEndS);
    return status;
}

}  // namespace longshore
