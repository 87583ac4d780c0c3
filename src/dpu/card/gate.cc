#include "dpu/card/gate.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>

#include "dpu/card/listeners.h"
#include "fabric/descriptors.h"
#include "fabric/shm/socket.h"

namespace longshore {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kLeaveNs = kSecondNs;      // for a refused one to read why
constexpr uint64_t kRestNs = kSecondNs / 10;  // after which accept() is tried again
constexpr size_t kLeavingMax = 256;
constexpr int kAcceptsPerTurn = 64;

__attribute__((format(printf, 1, 2))) void say(const char* format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "longshored: %s\n", line);
}

}  // namespace

struct Gate::Connection {
    SessionStream stream;
    IpAddress address;
    uint64_t until_ns = 0;
    bool leaving = false;  // has its answer; only its end is waited for
    // Why a rank that has said who it is cannot be served yet; else empty.
    std::string waits_for;
    HelloReader reader;
};

Gate::Gate(GateConfig config, StandIn stand_in, Reread reread, TaskGuard task_guard)
    : config_(std::move(config)),
      stand_in_(std::move(stand_in)),
      reread_(std::move(reread)),
      task_guard_(std::move(task_guard)) {}

Gate::~Gate() = default;

bool Gate::listen(std::string* error) {
    port_ = config_.port;
    listeners_ = listen_on(config_.address, &port_, error);
    for (const Fd& listener : listeners_) say("listening at %s", show_listener(listener).c_str());
    const std::string why = one_at_a_time();
    if (!listeners_.empty() && !why.empty()) say("serves one job at a time: %s", why.c_str());
    return !listeners_.empty();
}

bool Gate::take_signals() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&taken, signal);
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    signal(SIGPIPE, SIG_IGN);  // whoever reads the log may go
    signals_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    return static_cast<bool>(signals_);
}

int Gate::run() {
    if (!take_signals()) {
        say("no signalfd: %s", strerror(errno));
        return 1;
    }
    raise_descriptor_limit();
    std::vector<pollfd> polled;
    while (true) {
        polled.clear();
        polled.push_back({signals_.get(), POLLIN, 0});
        const bool resting = now_ns() < rest_until_ns_;
        for (const Fd& listener : listeners_) polled.push_back({resting ? -1 : listener.get(), POLLIN, 0});
        const size_t first = polled.size(), count = connections_.size();
        for (const auto& connection : connections_) {
            const short wanted = connection->waits_for.empty() ? POLLIN : POLLRDHUP;
            polled.push_back({connection->stream.fd(), wanted, 0});
        }
        if (poll(polled.data(), polled.size(), wait_ms()) < 0 && errno != EINTR) {
            say("poll: %s", strerror(errno));
            return 1;
        }
        if (polled[0].revents != 0 && !turn_signals()) break;
        const uint64_t now = now_ns();
        for (size_t i = 0; i < count; ++i) {
            Connection& connection = *connections_[i];
            if (!connection.stream.open()) continue;  // served meanwhile: another job has ended
            if (polled[first + i].revents != 0) turn(connection);
            if (!connection.stream.open() || now < connection.until_ns) continue;
            if (connection.leaving)
                connection.stream.close();
            else if (!connection.waits_for.empty())
                refuse(connection, {GateCause::kLimit, std::move(connection.waits_for)});
            else
                refuse(connection, {GateCause::kSlow, "it did not say who it is in time (limit_s)"});
        }
        std::erase_if(connections_, [](const auto& one) { return !one->stream.open(); });
        for (size_t i = 0; i < listeners_.size(); ++i)
            if (polled[1 + i].revents != 0) accept_all(listeners_[i]);
        show_hidden_refusals();
    }
    say("ends; %zu ranks of %zu jobs go on", jobs_.ranks(), jobs_.jobs());
    return 0;
}

// Until the next limit is over, or hidden refusals may be shown; -1: nothing is waited for.
int Gate::wait_ms() const {
    uint64_t next = UINT64_MAX;
    for (const auto& connection : connections_) next = std::min(next, connection->until_ns);
    if (log_.hidden != 0) next = std::min(next, log_.shown_ns + kSecondNs);
    const uint64_t now = now_ns();
    if (now < rest_until_ns_) next = std::min(next, rest_until_ns_);
    if (next == UINT64_MAX) return -1;
    return next <= now ? 0 : static_cast<int>((next - now) / 1'000'000 + 1);
}

// False: the service is to end.
bool Gate::turn_signals() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
        switch (info.ssi_signo) {
            case SIGCHLD:
                reap();
                break;
            case SIGHUP:
                read_config_again();
                break;
            case SIGUSR1:
                show_counters();
                break;
            default:
                return false;
        }
    }
    return true;
}

void Gate::reap() {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        // Others of the job may wait for what it was to do, and nobody would tell them.
        if (WIFSIGNALED(status)) {
            for (const pid_t other : jobs_.others_of(pid)) kill(other, SIGKILL);
        }
        doors_.erase(pid);
        if (const auto line = jobs_.remove(pid, status)) say("%s", line->c_str());
    }
    for (const pid_t guard : jobs_.useless_guards()) kill(guard, SIGKILL);
    try_waiting();
}

void Gate::read_config_again() {
    GateConfig config;
    std::string error;
    if (!reread_) return say("there is no configuration to read again");
    if (!reread_(&config, &error)) return say("the configuration stays as it was: %s", error.c_str());
    if (config.address != config_.address || config.port != config_.port)
        say("another address or port needs a restart: still %s", show_listener(listeners_[0]).c_str());
    config.address = config_.address;
    config.port = config_.port;
    config_ = std::move(config);
    say("the configuration was read again");
}

void Gate::show_counters() const {
    std::string refused;
    for (size_t i = 0; i < kGateCauses; ++i)
        refused += std::string(i == 0 ? "" : ", ") + gate_cause_name(static_cast<GateCause>(i)) + " " +
                   std::to_string(refused_[i]);
    say("counters: %zu jobs, %zu ranks, %zu connections; %llu connections and %llu ranks ever; refused: %s",
        jobs_.jobs(), jobs_.ranks(), connections_.size(), static_cast<unsigned long long>(accepted_),
        static_cast<unsigned long long>(started_), refused.c_str());
}

// --- connections

void Gate::accept_all(const Fd& listener) {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
        sockaddr_storage address{};
        socklen_t length = sizeof address;
        Fd socket(accept4(listener.get(), reinterpret_cast<sockaddr*>(&address), &length,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            meet(std::move(socket), ip_address(address));
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            rest_until_ns_ = now_ns() + kRestNs;  // the listener stays ready all the time
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
    }
}

void Gate::meet(Fd socket, const IpAddress& address) {
    ++accepted_;
    size_t waiting = 0, waiting_there = 0;
    for (const auto& one : connections_) {
        waiting += !one->leaving;
        waiting_there += !one->leaving && one->address == address;
    }
    auto connection = std::make_unique<Connection>();
    connection->stream = SessionStream(std::move(socket), config_.limit_s);
    connection->address = address;
    connection->until_ns = now_ns() + config_.limit_s * kSecondNs;
    const bool allowed = config_.allow.empty()
                             ? address.is_loopback()
                             : std::any_of(config_.allow.begin(), config_.allow.end(),
                                           [&](const auto& network) { return network.contains(address); });
    if (!allowed) {
        refuse(*connection,
               {GateCause::kNetwork, "`allow` of the DPU's service has no network with this address"});
    } else if (waiting + jobs_.ranks() >= config_.ranks_max) {
        refuse(*connection,
               {GateCause::kLimit, "ranks_max of the DPU's service is " + std::to_string(config_.ranks_max) +
                                       ": so many connections are there"});
    } else if (waiting_there + jobs_.ranks_of(address) >= config_.ranks_per_address_max) {
        refuse(*connection, {GateCause::kLimit, "ranks_per_address_max of the DPU's service is " +
                                                    std::to_string(config_.ranks_per_address_max) +
                                                    ": so many connections of this address are there"});
    }
    // Often the first words have arrived with the connection.
    if (!connection->leaving && connection->stream.open()) turn(*connection);
    if (connection->stream.open()) connections_.push_back(std::move(connection));
}

void Gate::turn(Connection& connection) {
    if (connection.leaving) {
        std::byte nowhere[4096];
        const ssize_t got = recv(connection.stream.fd(), nowhere, sizeof nowhere, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            connection.stream.close();
        return;
    }
    if (!connection.waits_for.empty()) return connection.stream.close();  // it does not wait any longer
    switch (connection.reader.read(connection.stream.fd())) {
        case HelloReader::State::kPartial:
            break;
        case HelloReader::State::kRefused:
            refuse(connection, connection.reader.refusal());
            break;
        case HelloReader::State::kQuestion:
            answer(connection, {true, ""});
            break;
        case HelloReader::State::kCopier:
            pass_on(connection);
            break;
        case HelloReader::State::kWhole:
        case HelloReader::State::kTasks:
            try_to_serve(connection);
            break;
    }
}

void Gate::try_to_serve(Connection& connection) {
    const HelloReader& reader = connection.reader;
    auto refusal = reader.is_of_tasks()
                       ? jobs_.refuse(reader.tasks(), config_)
                       : jobs_.refuse(reader.hello(), connection.address, config_, one_at_a_time());
    if (!refusal) {
        start_process(connection);
    } else if (refusal->may_pass) {
        connection.waits_for = std::move(refusal->reason);
    } else {
        refuse(connection, *refusal);
    }
}

void Gate::try_waiting() {
    for (const auto& connection : connections_) {
        if (!connection->stream.open() || connection->leaving || connection->waits_for.empty()) continue;
        connection->waits_for.clear();
        try_to_serve(*connection);
    }
}

// Why there is no user for each job, by which the kernel would keep jobs apart; empty: there is.
std::string Gate::one_at_a_time() const {
    if (geteuid() != 0) return "it is not root, and can start them as no other users";
    return config_.job_users.is_set() ? "" : "job_users is not set";
}

// The last that it hears from here. It gets a moment to read it: data that arrive at a closed socket would
// take it away again.
void Gate::answer(Connection& connection, const SessionWelcome& welcome) {
    connection.stream.send(SessionKind::kWelcome, welcome);
    const auto leaving =
        std::count_if(connections_.begin(), connections_.end(), [](const auto& one) { return one->leaving; });
    if (leaving >= static_cast<ptrdiff_t>(kLeavingMax)) connection.stream.close();
    if (!connection.stream.open()) return;
    shutdown(connection.stream.fd(), SHUT_WR);
    connection.leaving = true;
    connection.waits_for.clear();
    connection.until_ns = now_ns() + kLeaveNs;
}

void Gate::refuse(Connection& connection, const GateRefusal& refusal) {
    count_refusal(connection.address, refusal);
    answer(connection, {false, refusal.reason});
    // Whoever may not come at all is not waited for.
    if (refusal.cause == GateCause::kNetwork) connection.stream.close();
}

void Gate::count_refusal(const IpAddress& address, const GateRefusal& refusal) {
    ++refused_[static_cast<size_t>(refusal.cause)];
    const uint64_t now = now_ns();
    if (log_.shown_ns != 0 && now < log_.shown_ns + kSecondNs) {
        ++log_.hidden;
        return;
    }
    show_hidden_refusals();
    log_.shown_ns = now;
    say("refused %s (%s): %s", show(address).c_str(), gate_cause_name(refusal.cause), refusal.reason.c_str());
}

void Gate::show_hidden_refusals() {
    if (log_.hidden == 0 || now_ns() < log_.shown_ns + kSecondNs) return;
    say("refused %llu more", static_cast<unsigned long long>(log_.hidden));
    log_.hidden = 0;
    log_.shown_ns = now_ns();
}

// --- stand-ins, and guards of tasks

// As whom the job runs. False: it was refused.
bool Gate::choose_user(Connection& connection, std::optional<uint32_t>* user) {
    const HelloReader& reader = connection.reader;
    const uint64_t job = reader.is_of_tasks() ? reader.tasks().job : reader.hello().job;
    if (jobs_.has(job)) return *user = jobs_.user_of(job), true;
    if (!one_at_a_time().empty()) return true;
    *user = free_user(config_.job_users, jobs_.users());
    if (*user) return true;
    refuse(connection, {GateCause::kLimit, "job_users of the DPU's service is " + show(config_.job_users) +
                                               ": all of them have jobs, or processes of jobs"});
    return false;
}

// To the stand-in of its rank, which answers.
void Gate::pass_on(Connection& connection) {
    const SessionCopier& copier = connection.reader.copier();
    if (const auto refusal = jobs_.refuse(copier)) return refuse(connection, *refusal);
    const int socket = connection.stream.fd();
    const std::byte nothing{};
    if (send_packet(doors_[jobs_.stand_in_of(copier)], &nothing, sizeof nothing, {&socket, 1}) != Io::kOk)
        return refuse(connection, {GateCause::kNoProcess, "the rank's stand-in takes no connection"});
    connection.stream.close();
}

void Gate::start_process(Connection& connection) {
    std::optional<uint32_t> user;
    if (!choose_user(connection, &user)) return;
    int ends[2] = {-1, -1};
    if (!connection.reader.is_of_tasks() &&
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return refuse(connection, {GateCause::kNoProcess, std::string("no process: ") + strerror(errno)});
    Fd door(ends[0]), inner(ends[1]);
    const pid_t pid = fork();
    if (pid == 0) become_process(connection, user, std::move(inner));
    if (pid < 0)
        return refuse(connection, {GateCause::kNoProcess, std::string("no process: ") + strerror(errno)});
    if (door) doors_[pid] = std::move(door);
    const SessionHello& hello = connection.reader.hello();
    if (connection.reader.is_of_tasks()) {
        jobs_.add_guard(pid, connection.reader.tasks().job);
    } else {
        ++started_;
        if (jobs_.add(pid, hello, connection.address, user))
            say("job %s opened: %u ranks; rank %u from %s", job_name(hello.job).c_str(), hello.size,
                hello.rank, show(connection.address).c_str());
    }
    connection.stream.close();
}

// There is no PR_SET_PDEATHSIG, and a process group of its own: jobs outlive the service, which can be
// restarted under them. No session of its own: the kernel shares out cores by session first, and processes
// that spin in one of them were seen to keep those of others from any core for seconds.
void Gate::become_process(Connection& connection, std::optional<uint32_t> user, Fd door) {
    setpgid(0, 0);
    doors_.clear();
    if (user && !become_user(*user)) {
        answer(connection,
               {false, std::string("the DPU's service cannot start it as another user: ") + strerror(errno)});
        _exit(1);
    }
    const bool is_guard = connection.reader.is_of_tasks();
    const SessionHello hello = connection.reader.hello();
    const SessionTasks tasks = connection.reader.tasks();
    SessionStream stream(connection.stream.take_socket(), is_guard ? tasks.limit_s : hello.limit_s);
    listeners_.clear();
    signals_.reset();
    for (const auto& other : connections_) other->stream.close();
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int status = !is_guard     ? stand_in_(std::move(stream), hello, std::move(door))
                       : task_guard_ ? task_guard_(std::move(stream), tasks, config_.task_folders)
                                     : 1;
    fflush(nullptr);
    _exit(status);
}

}  // namespace longshore
