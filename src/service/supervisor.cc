#include "service/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <string>

#include "fabric/descriptors.h"
#include "fabric/network.h"
#include "fabric/shm/child.h"
#include "fabric/shm/doorbell.h"
#include "fabric/shm/packet_queue.h"
#include "fabric/shm/seat.h"
#include "fabric/tcp/addresses.h"
#include "fabric/tcp/node_port.h"
#include "io/keeper.h"
#include "service/group_table.h"
#include "service/node_ranks.h"
#include "service/placement.h"
#include "service/starter.h"
#include "service/task_placement.h"
#include "tasks/guests.h"
#include "tasks/pools.h"

namespace longshore {
namespace {

struct Service {
    pid_t pid = 0;
    uint16_t incarnation = 0;
    Fd control;
    PacketQueue unsent;  // it reads when it has started
    std::string reason;  // why it cannot start, if it has said so
};

class Supervisor {
  public:
    explicit Supervisor(const SupervisorParameters& parameters);
    bool start(ServiceReady* ready);
    int run(const Fd& starter);
    // This node's, of the address book.
    std::span<const std::byte> own_entry() const { return own_entry_; }

  private:
    std::string lacks_descriptors() const;
    bool make_memory();
    void open_to_ranks();
    bool start_service(uint16_t s);
    void stop_services();
    void finish_writing();
    void reap_services();
    void accept_ranks();
    bool hear_workers(ServiceReady* ready);
    bool make_entry(ServiceReady* ready);
    void tell_services();
    void turn_service(Service& service);
    void hear_problem(Service& service, size_t bytes);
    void tell_end(uint16_t s, int status, bool again);
    bool start_again(uint16_t s);
    void go_on_without_services();
    void turn_port();
    void place_all();
    void open_to_tasks();
    bool takes_tasks() const;
    bool open_port(std::string* error);
    void open_to_guests();
    bool find_task_node(const char* wanted, tasks::FarNode* far, std::string* error) const;
    void open_to_writing();
    NodeCpus look_at_cpus() const;
    std::vector<tasks::TaskPlace> place_tasks_of_pool(const char* cores, uint32_t processes, uint32_t threads,
                                                      std::string* error);
    void tell_leader(const char* text);
    void wake(const WakeSet& sleepers) const;
    void send_nodes(Service& service);

    const ServiceParameters p_;
    SocketName name_;
    Token token_{};
    Fd listener_, signals_, memory_file_, sight_file_;
    Mapping mapping_, sight_;
    NodeMemory memory_;
    std::unique_ptr<GroupTable> groups_;
    std::vector<Fd> eventfds_;
    std::vector<Service> services_;
    AddressBook book_;
    std::unique_ptr<NodeRanks> ranks_;
    NodeEntry entry_;
    std::vector<std::byte> own_entry_;  // encoded
    std::unique_ptr<NodePort> port_;    // where others may come by TCP
    std::vector<PlaceService> places_;
    std::vector<int> cpus_;
    std::unique_ptr<tasks::TaskPools> tasks_;
    std::unique_ptr<tasks::TaskGuests> guests_;
    PortShare guests_share_;  // until they are let in
    std::unique_ptr<io::Keeper> files_;
    CpuMask cpus_of_tasks_;
    uint32_t restarts_ = 0;
    bool without_services_ = false;  // for good
    std::string told_reason_;  // of those for which service processes could not start, the last that was told
    alignas(8) std::byte buffer_[kControlBytesMax];
};

Supervisor::Supervisor(const SupervisorParameters& parameters)
    : p_(parameters.service), book_({p_.node_count, p_.service_count, p_.network != 0, p_.host_agents != 0}) {
    entry_.agent.assign(parameters.agent, parameters.agent + parameters.agent_bytes);
}

void set_reason(char* out, const char* what) {
    snprintf(out, kReasonBytes, "%s: %s", what, strerror(errno));
}

// Where this program has been replaced or taken away meanwhile, the one that runs.
std::string program_path() {
    const std::string path = own_program();
    return access(path.c_str(), X_OK) == 0 ? path : "/proc/self/exe";
}

bool Supervisor::make_memory() {
    const uint64_t bytes = NodeLayout::of(p_.node_limits).total_bytes;
    memory_file_ = make_memory_file("longshore-node", bytes);
    const uint64_t sight_bytes = SightLayout::total_bytes(p_.service_count, p_.trace != 0);
    sight_file_ = make_memory_file("longshore-sight", sight_bytes);
    if (!memory_file_ || !sight_file_) return false;
    mapping_ = Mapping::shared(memory_file_.get(), bytes);
    sight_ = Mapping::shared(sight_file_.get(), sight_bytes);
    if (!mapping_ || !sight_) return false;
    memory_ = NodeMemory::create(mapping_.data(), p_.node_limits, NodeId{p_.node}, p_.node_count,
                                 p_.rank_count, p_.service_count);
    groups_ = std::make_unique<GroupTable>(memory_);
    return true;
}

// Empty, or why this process or the service processes, who may have as many as this one, cannot have all the
// descriptors that they may come to need. Better no job than one that waits for connections that nobody can
// make.
std::string Supervisor::lacks_descriptors() const {
    const uint64_t limit = raise_descriptor_limit();
    const uint64_t own = descriptors_of_supervisor(p_.rank_count, p_.service_count);
    if (own > limit) return too_few_descriptors("the supervisor of the service processes", limit, own);
    // What UCX needs nobody knows.
    const NetworkSettings& network = p_.network_settings;
    const bool maybe_ucx = network.choice != NetworkChoice::kTcp && has_rdma_device();
    const bool by_tcp = p_.network && may_use_tcp(network, p_.host_agents != 0);
    if (p_.network && (!by_tcp || maybe_ucx)) return "";
    const uint64_t needed = descriptors_of_service(p_.node_count, p_.service_count, by_tcp);
    return needed > limit ? too_few_descriptors("a service process", limit, needed) : "";
}

bool Supervisor::start(ServiceReady* ready) {
    const auto fail = [&](const char* what) {
        set_reason(ready->reason, what);
        return false;
    };
    cpus_ = reset_affinity();
    const std::string too_few = lacks_descriptors();
    if (!too_few.empty()) {
        snprintf(ready->reason, sizeof ready->reason, "%s", too_few.c_str());
        return false;
    }
    if (!make_secret(&name_, &token_)) return fail("no random numbers");
    listener_ = listen_at(name_);
    if (!listener_) return fail("cannot listen");
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    signals_ = Fd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return fail("no signalfd");
    if (!make_memory()) return fail("no memory for the node's records");
    places_.resize(p_.service_count);
    services_.resize(p_.service_count);
    for (uint16_t s = 0; s < p_.service_count; ++s) {
        eventfds_.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!eventfds_.back()) return fail("no eventfd");
    }
    std::string error;
    if (!open_port(&error)) {
        snprintf(ready->reason, sizeof ready->reason, "%s", error.c_str());
        return false;
    }
    open_to_ranks();
    open_to_tasks();
    open_to_writing();
    for (uint16_t s = 0; s < p_.service_count; ++s) {
        if (!start_service(s)) return fail("a service process could not start");
    }
    if (p_.network && !hear_workers(ready)) return false;
    ready->name = name_;
    ready->token = token_;
    return make_entry(ready);
}

// Whether this node's tasks go to others, and theirs come here.
bool Supervisor::takes_tasks() const {
    return p_.takes_tasks != 0 && p_.network_settings.tls == 0;
}

// For streams of service processes, and of tasks, which have a place behind the last one's.
bool Supervisor::open_port(std::string* error) {
    const NetworkSettings& network = p_.network_settings;
    const bool for_services = p_.network && may_use_tcp(network, p_.host_agents != 0);
    if (!for_services && !takes_tasks()) return true;
    const auto ends = static_cast<uint16_t>(p_.service_count + (takes_tasks() ? 1 : 0));
    port_ = NodePort::open(network.port_first, network.port_last, ends, error);
    if (!port_ || !takes_tasks()) return port_ != nullptr;
    port_->keep_open();
    guests_share_ = port_->share(ServiceId{p_.service_count});
    const std::vector<TcpAddress> own = own_addresses(network.interfaces, error);
    entry_.tasks = encode_addresses(own, guests_share_.port);
    return !own.empty();
}

// What other nodes must know of this one. Its ranks read it in shared memory, and tell the others.
bool Supervisor::make_entry(ServiceReady* ready) {
    entry_.address.name = name_;
    entry_.address.token = token_;
    entry_.address.services = p_.service_count;
    gethostname(entry_.address.host, sizeof entry_.address.host - 1);
    own_entry_ = encode_entry(entry_);
    static_assert(kEntryBytesMax <= kSightEntryBytesMax);
    if (own_entry_.empty()) {
        snprintf(
            ready->reason, sizeof ready->reason,
            "the network's addresses are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES) or service "
            "processes");
        return false;
    }
    SightEntry& place = SightLayout::entry(sight_.data());
    memcpy(sight_.data() + SightLayout::kEntryAt + sizeof place, own_entry_.data(), own_entry_.size());
    place.bytes.store(static_cast<uint32_t>(own_entry_.size()), std::memory_order_release);
    return true;
}

void Supervisor::open_to_ranks() {
    NodeRanks::Given given{token_, mapping_.size(), sight_.size(), {memory_file_.get(), sight_file_.get()}};
    for (const Fd& fd : eventfds_) given.descriptors.push_back(fd.get());
    ranks_ = std::make_unique<NodeRanks>(
        p_, memory_, groups_.get(), &book_, std::move(given),
        NodeRanks::Events{
            [this] { place_all(); }, [this] { tell_services(); },
            [this](Fd socket, pid_t pid, const tasks::OpenPool& request, std::vector<Fd> descriptors) {
                tasks_->open(std::move(socket), pid, request, std::move(descriptors));
            },
            [this](const WakeSet& wake) { this->wake(wake); },
            [this](Fd socket, pid_t pid, const io::OpenQueue& request, std::vector<Fd> descriptors) {
                files_->open(std::move(socket), pid, request, std::move(descriptors));
            }});
}

void Supervisor::open_to_tasks() {
    tasks::TaskPools::Node node;
    node.node = p_.node;
    node.rank_count = p_.rank_count;
    node.spin_us = p_.spin_us;
    node.restarts_max = p_.restarts_max;
    node.program = program_path();
    node.place = [this](const char* cores, uint32_t processes, uint32_t threads, std::string* error) {
        return place_tasks_of_pool(cores, processes, threads, error);
    };
    node.find_node = [this](const char* wanted, tasks::FarNode* far, std::string* error) {
        return find_task_node(wanted, far, error);
    };
    node.tell = [this](const char* text) { tell_leader(text); };
    guests_ = std::make_unique<tasks::TaskGuests>(
        tasks::TaskGuests::Node{p_.node, node.program, node.place, node.tell, nullptr});
    tasks_ = std::make_unique<tasks::TaskPools>(std::move(node));
}

// Once all nodes are known: until then whoever comes waits.
void Supervisor::open_to_guests() {
    if (!guests_share_.streams) return;
    std::string error;
    const NetworkPart* const part = load_own_network(NetworkKind::kTcp, &error);
    std::unique_ptr<StreamDoor> door;
    if (part != nullptr && part->streams != nullptr)
        door = part->streams->open_door(NodeId{p_.node}, book_.nodes(), std::move(guests_share_.streams),
                                        p_.limit_s * 1'000'000'000ull, &error);
    guests_share_.streams.reset();
    if (door)
        guests_->open(std::move(door));
    else
        tell_leader(("this node takes no tasks of others: " + error).c_str());
}

// By LONGSHORE_TASK_NODE: the next one, a number, or a host, of which the first node is taken.
bool Supervisor::find_task_node(const char* wanted, tasks::FarNode* far, std::string* error) const {
    const std::string name = wanted;
    const auto fail = [&](const std::string& why) {
        *error = "LONGSHORE_TASK_NODE=" + name + ": " + why;
        return false;
    };
    if (name.empty()) return true;
    if (name == "dpu") return fail("this job has no DPU (LONGSHORE_DPU)");
    if (!book_.is_whole()) return fail("the nodes of the job are not known yet");
    const std::vector<NodeAddress> nodes = book_.nodes();
    size_t found = nodes.size();
    if (name == "next") {
        found = (p_.node + size_t{1}) % nodes.size();
    } else if (name.find_first_not_of("0123456789") == name.npos) {
        found = name.size() <= 6 ? std::stoul(name) : nodes.size();
    } else {
        const auto of_host = [&](const NodeAddress& node) { return name == node.host; };
        found = static_cast<size_t>(std::find_if(nodes.begin(), nodes.end(), of_host) - nodes.begin());
    }
    if (found >= nodes.size())
        return fail("the job has no such node (it has " + std::to_string(nodes.size()) +
                    ", from 0, the last on " + nodes.back().host + ")");
    if (found == p_.node) return true;
    if (p_.network_settings.tls != 0)
        return fail(
            "tasks of other nodes are not encrypted, and LONGSHORE_NETWORK_SECURITY=tls wants all to be");
    const std::vector<std::byte> addresses = book_.tasks(found);
    if (addresses.empty() || addresses.size() > sizeof far->addresses)
        return fail("that node takes no tasks of others");
    far->is_far = 1;
    far->limit_s = p_.limit_s;
    far->self = {NodeId{p_.node}, nodes[p_.node]};
    far->to = {NodeId{static_cast<uint16_t>(found)}, nodes[found]};
    far->address_bytes = static_cast<uint32_t>(addresses.size());
    std::copy(addresses.begin(), addresses.end(), far->addresses);
    return true;
}

void Supervisor::open_to_writing() {
    io::Keeper::Node node;
    node.node = p_.node;
    node.rank_count = p_.rank_count;
    node.restarts_max = p_.restarts_max;
    node.program = program_path();
    node.tell = [this](const char* text) { tell_leader(text); };
    files_ = std::make_unique<io::Keeper>(std::move(node));
}

// Until each service process has said where the network reaches it. A restarted one says so to its peers.
bool Supervisor::hear_workers(ServiceReady* ready) {
    // Four times as long as an answer may take, since they load their program, from a network file system
    // perhaps.
    const uint64_t end = awake_ns() + p_.limit_s * 4'000'000'000ull;
    bool aliases = p_.probe.bytes != 0;
    for (uint16_t s = 0; s < services_.size(); ++s) {
        Service& service = services_[s];
        WorkerReport report;
        size_t bytes = 0;
        Io io = Io::kAgain;
        while ((io = receive_packet(service.control, buffer_, sizeof buffer_, &bytes, nullptr)) ==
                   Io::kAgain &&
               awake_ns() < end) {
            pollfd told{service.control.get(), POLLIN, 0};
            poll(&told, 1, 100);
        }
        if (io == Io::kOk) hear_problem(service, bytes);
        if (io == Io::kOk && bytes >= sizeof report) memcpy(&report, buffer_, sizeof report);
        if (io != Io::kOk || bytes != sizeof report + report.bytes) {
            snprintf(ready->reason, sizeof ready->reason, "%s",
                     !service.reason.empty() ? service.reason.c_str()
                     : io == Io::kAgain      ? "a service process did not reach the network in time"
                                             : "a service process ended before it had reached the network");
            return false;
        }
        report.reason[sizeof report.reason - 1] = 0;
        entry_.services.emplace_back(buffer_ + sizeof report, buffer_ + sizeof report + report.bytes);
        if (!aliases || report.aliases != 0) continue;
        aliases = false;
        memcpy(ready->reason, report.reason, sizeof ready->reason);
    }
    ready->aliases = aliases;
    return true;
}

bool Supervisor::start_service(uint16_t s) {
    char service_text[8], node_text[8];
    snprintf(service_text, sizeof service_text, "%u", s);
    snprintf(node_text, sizeof node_text, "%u", p_.node);
    char program[] = "longshored:", role[] = "sp", node_word[] = "node";
    char* const arguments[] = {program, role, service_text, node_word, node_text, nullptr};
    Child child = start_child(program_path().c_str(), arguments, environ);
    if (child.pid < 0) return false;
    Service& service = services_[s];
    service.pid = child.pid;
    ++service.incarnation;
    service.reason.clear();
    service.control = std::move(child.control);
    groups_->service_started(ServiceId{s});
    StartService start;
    start.parameters = p_;
    start.service = s;
    start.incarnation = service.incarnation;
    start.supervisor_pid = static_cast<uint32_t>(getpid());
    start.memory_bytes = mapping_.size();
    start.sight_bytes = sight_.size();
    std::vector<int> give{memory_file_.get(), sight_file_.get()};
    for (const Fd& fd : eventfds_) give.push_back(fd.get());
    const bool by_tcp = p_.network && may_use_tcp(p_.network_settings, p_.host_agents != 0);
    const PortShare share = port_ && by_tcp ? port_->share(ServiceId{s}) : PortShare{};
    if (share.streams) {
        start.port = share.port;
        give.push_back(share.streams.get());
    }
    service.unsent.clear();
    if (!service.unsent.send_message(service.control, start, give)) {
        kill(service.pid, SIGKILL);  // its end is heard of, and it is started again or not
        return false;
    }
    service.unsent.send_message(service.control, places_[s]);
    if (book_.is_whole()) send_nodes(service);
    return true;
}

// What its socket does not take waits for it to start.
void Supervisor::send_nodes(Service& service) {
    for (const auto& packet : book_.packets()) service.unsent.send(service.control, packet);
}

void Supervisor::stop_services() {
    for (Service& service : services_) {
        if (service.pid > 0) kill(service.pid, SIGKILL);
    }
    for (Service& service : services_) {
        if (service.pid > 0) waitpid(service.pid, nullptr, 0);
    }
}

void Supervisor::wake(const WakeSet& sleepers) const {
    for (uint32_t s = 0; s < eventfds_.size(); ++s)
        if ((sleepers.services >> s & 1) != 0) ring_eventfd(eventfds_[s].get());
    WakeSet ranks = sleepers;
    ranks.services = 0;
    Doorbell(memory_, {}).ring(ranks);
}

void Supervisor::tell_leader(const char* text) {
    ranks_->tell_leader(text);
}

void Supervisor::reap_services() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (tasks_->reap(pid, status) || guests_->reap(pid, status) || files_->reap(pid, status)) continue;
        for (uint16_t s = 0; s < services_.size(); ++s) {
            if (services_[s].pid != pid) continue;
            services_[s].pid = 0;
            turn_service(services_[s]);  // its last words
            services_[s].control.reset();
            groups_->service_ended(ServiceId{s});
            memory_.service(ServiceId{s}).pid.store(0);
            if (without_services_) continue;
            const bool again = restarts_ < p_.restarts_max && services_[s].incarnation < kIncarnationMax;
            tell_end(s, status, again);
            if (!again || !start_again(s)) go_on_without_services();
        }
    }
}

bool Supervisor::start_again(uint16_t s) {
    ++restarts_;
    if (start_service(s) || services_[s].pid > 0) return true;
    char text[kReasonBytes];
    snprintf(text, sizeof text, "service process %u of node %u cannot be started again: %s", s, p_.node,
             strerror(errno));
    tell_leader(text);
    return false;
}

// Without one of them the node's ranks give up whatever goes beyond the node. Other nodes learn of it only by
// losing all: one that lived on would answer for ranks that enter nothing any more.
void Supervisor::go_on_without_services() {
    if (p_.node_count == 1) return;
    without_services_ = true;
    for (const Service& service : services_)
        if (service.pid > 0) kill(service.pid, SIGKILL);
}

// Why one that could not start could not is told once, not with each attempt; nor is it told of attempts for
// the same reason.
void Supervisor::tell_end(uint16_t s, int status, bool again) {
    const std::string& reason = services_[s].reason;
    char text[kReasonBytes];
    if (reason.empty()) {
        snprintf(text, sizeof text, "service process %u of node %u was lost (%s %d); %s", s, p_.node,
                 WIFSIGNALED(status) ? "signal" : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 again ? "it is started again" : "it is not started again");
    } else if (reason != told_reason_) {
        // A long reason is cut: it comes last.
        snprintf(text, sizeof text, "service process %u of node %u could not start (%s): %s", s, p_.node,
                 again ? "it is tried again" : "it is not tried again", reason.c_str());
        told_reason_ = reason;
    } else if (!again) {
        snprintf(text, sizeof text, "service process %u of node %u could not start; it is not tried again", s,
                 p_.node);
    } else {
        return;
    }
    tell_leader(text);
}

void Supervisor::turn_service(Service& service) {
    service.unsent.flush(service.control);
    size_t bytes = 0;
    while (service.control &&
           receive_packet(service.control, buffer_, sizeof buffer_, &bytes, nullptr) == Io::kOk)
        hear_problem(service, bytes);
}

// A packet in buffer_, which may be another: a line for the user, or why the service process ends.
void Supervisor::hear_problem(Service& service, size_t bytes) {
    ProblemReport report;
    if (bytes != sizeof report) return;
    memcpy(&report, buffer_, sizeof report);
    report.text[sizeof report.text - 1] = 0;
    if (report.header.kind == ControlKind::kProblem) tell_leader(report.text);
    if (report.header.kind == ControlKind::kCannotStart) service.reason = report.text;
}

void Supervisor::turn_port() {
    port_->turn();
    const std::string problem = port_->take_problem();
    if (!problem.empty()) tell_leader(problem.c_str());
}

// --- ranks

void Supervisor::accept_ranks() {
    for (int i = 0; i < kAcceptedPerTurn; ++i) {
        Fd socket = accept_from(listener_);
        if (!socket) return;
        ranks_->add(std::move(socket));
    }
}

void Supervisor::place_all() {
    places_ = place_services(p_, cpus_, ranks_->processes());
    for (PlaceService& place : places_) {
        if (cpus_of_tasks_.has(place.core)) place.may_spin = 0;
    }
    const bool spare = std::all_of(places_.begin(), places_.end(),
                                   [](const PlaceService& place) { return place.may_spin != 0; });
    SightLayout::job(sight_.data()).spare_cores.store(spare);
    for (size_t s = 0; s < services_.size(); ++s) {
        if (services_[s].control) services_[s].unsent.send_message(services_[s].control, places_[s]);
    }
}

NodeCpus Supervisor::look_at_cpus() const {
    const RankCpus ranks = look_at_ranks(ranks_->processes(), cpus_);
    NodeCpus node;
    // Supervisors of emulated nodes do not see each other's ranks: nobody knows what is spare.
    node.ranks_are_bound = p_.machine_ranks == p_.rank_count && ranks.all_bound;
    for (const int cpu : cpus_) {
        const bool of_service = std::any_of(places_.begin(), places_.end(),
                                            [&](const PlaceService& place) { return place.core == cpu; });
        node.all.push_back({cpu, seat_of_cpu(cpu), ranks.taken.has(cpu), of_service});
    }
    return node;
}

// A service process whose core task processes use too spins no more.
std::vector<tasks::TaskPlace> Supervisor::place_tasks_of_pool(const char* cores, uint32_t processes,
                                                              uint32_t threads, std::string* error) {
    auto places = place_tasks(look_at_cpus(), cores, processes, threads, error);
    for (const tasks::TaskPlace& place : places) {
        for (const int cpu : place.cpus) cpus_of_tasks_.add(cpu);
    }
    place_all();
    return places;
}

// Once all is known.
void Supervisor::tell_services() {
    if (!book_.is_whole()) return;
    open_to_guests();
    for (Service& service : services_) {
        if (service.control) send_nodes(service);
    }
}

// What ranks have written goes on to the disk, also when they were ended.
void Supervisor::finish_writing() {
    constexpr int kTurnMs = 20;
    while (files_->finish()) {
        pollfd ready[] = {{signals_.get(), POLLIN, 0}, {files_->fd(), POLLIN, 0}};
        poll(ready, 2, kTurnMs);
        if (ready[0].revents != 0) reap_services();
        files_->turn();
    }
}

// `starter`: a pipe whose other end the starting rank holds as long as it may still attach.
int Supervisor::run(const Fd& starter) {
    const uint64_t begin = awake_ns(), limit = p_.limit_s * 4'000'000'000ull;
    std::vector<pollfd> ready;
    for (;;) {
        ready.clear();
        ready.push_back({listener_.get(), POLLIN, 0});
        ready.push_back({signals_.get(), POLLIN, 0});
        ready.push_back({ranks_->fd(), POLLIN, 0});
        const size_t ranks_end = ready.size();
        for (const Service& service : services_) {
            const short wanted = service.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
            ready.push_back({service.control.get(), wanted, 0});
        }
        ready.push_back({port_ && !port_->is_closed() ? port_->fd() : -1, POLLIN, 0});
        ready.push_back({tasks_->fd(), POLLIN, 0});
        ready.push_back({guests_->fd(), POLLIN, 0});
        ready.push_back({files_->fd(), POLLIN, 0});
        if (ranks_->attached_ever() == 0) ready.push_back({starter.get(), 0, 0});
        const bool looks = ranks_->attached_ever() == 0 || ranks_->has_nameless();
        const bool strangers = port_ && port_->busy();
        const int strangers_ms = static_cast<int>(NodePort::kTurnNs / 1'000'000);
        constexpr int kAskingMs = 1;
        const int looks_ms = strangers ? strangers_ms : looks ? 500 : -1;
        poll(ready.data(), ready.size(), ranks_->has_asking() ? kAskingMs : looks_ms);
        if (ready[1].revents != 0) reap_services();
        if (strangers || ready[ranks_end + services_.size()].revents != 0) turn_port();
        for (size_t s = 0; s < services_.size(); ++s) {
            if (ready[ranks_end + s].revents != 0) turn_service(services_[s]);
        }
        tasks_->turn();
        guests_->turn();
        files_->turn();
        ranks_->turn();
        if (ready[0].revents != 0) accept_ranks();
        if (ranks_->has_lost()) {
            tell_leader("a rank's stand-in was lost: what is not complete ends in an error");
            break;
        }
        const bool given_up = ready.size() > ranks_end + services_.size() + 4 && ready.back().revents != 0;
        if (ranks_->attached_now() == 0 &&
            (ranks_->attached_ever() > 0 || given_up || awake_ns() - begin > limit))
            break;
    }
    tasks_->stop();
    guests_->stop();
    stop_services();
    finish_writing();
    files_->stop();
    return 0;
}

bool is_possible(const ServiceParameters& p) {
    return p.service_count >= 1 && p.service_count <= p.node_limits.services_max &&
           p.service_count <= kServicesPerNodeMax && p.rank_count >= 1 &&
           p.rank_count <= p.node_limits.ranks_max && p.node < p.node_count;
}

}  // namespace

int run_supervisor() {
    SupervisorParameters parameters;
    Starter starter;
    if (!starter.read_parameters(&parameters, sizeof parameters) || !is_possible(parameters.service) ||
        parameters.agent_bytes > sizeof parameters.agent)
        return 2;
    ServiceReady ready;
    Supervisor supervisor(parameters);
    ready.ok = supervisor.start(&ready);
    return starter.tell(ready, supervisor.own_entry()) && ready.ok ? supervisor.run(starter.pipe()) : 1;
}

}  // namespace longshore
