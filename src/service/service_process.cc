#include "service/service_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/text.h"
#include "fabric/address_book.h"
#include "fabric/described_fabric.h"
#include "fabric/descriptors.h"
#include "fabric/network.h"
#include "service/placement.h"
#include "service/service_loop.h"

namespace longshore {
namespace {

// What has come from the supervisor so far, and the wait for what has not.
class Control {
  public:
    explicit Control(int fd) : socket_(fd) {}

    bool wait_for_start(StartService* start, std::vector<Fd>* descriptors) {
        size_t bytes = 0;
        return receive_next(buffer_, &bytes, descriptors) && bytes == sizeof *start &&
               (memcpy(start, buffer_, sizeof *start), start->header.magic == kControlMagic) &&
               start->header.kind == ControlKind::kStartService;
    }
    // Until the job's nodes are known. False: the supervisor has gone.
    bool wait_for_book(AddressBook* book, PlaceService* place) {
        while (!book->is_whole()) {
            size_t bytes = 0;
            if (!receive_next(buffer_, &bytes, nullptr)) return false;
            const bool of_book = is(ControlKind::kAddressBook, bytes);
            if (of_book && !book->take({buffer_, bytes})) return false;
            if (!of_book) hear_place(bytes, place);
        }
        return true;
    }
    // By which the network reaches this process, and why it can make no aliases.
    void report_worker(std::span<const std::byte> address, const std::string& no_alias) {
        WorkerReport report;
        report.bytes = static_cast<uint32_t>(address.size());
        report.aliases = no_alias.empty();
        no_alias.copy(report.reason, sizeof report.reason - 1);
        std::vector<std::byte> packet(sizeof report + address.size());
        memcpy(packet.data(), &report, sizeof report);
        memcpy(packet.data() + sizeof report, address.data(), address.size());
        send_packet(socket_, packet.data(), packet.size());
    }
    // What there is to take now. False: the supervisor has gone.
    bool turn(PlaceService* place, bool* placed) {
        for (;;) {
            size_t bytes = 0;
            const Io io = receive_packet(socket_, buffer_, sizeof buffer_, &bytes, nullptr);
            if (io != Io::kOk) return io == Io::kAgain;
            *placed |= hear_place(bytes, place);
        }
    }
    void report(const std::string& text) { tell(ControlKind::kProblem, text); }
    // Returns the exit status of this process, which ends because of `why`.
    int cannot_start(const std::string& why) {
        tell(ControlKind::kCannotStart, why);
        return 1;
    }
    int fd() const { return socket_.get(); }

  private:
    void tell(ControlKind kind, const std::string& text) {
        ProblemReport report;
        report.header = {kControlMagic, kind};
        text.copy(report.text, sizeof report.text - 1);
        send_packet(socket_, &report, sizeof report);
    }
    bool receive_next(std::byte* buffer, size_t* bytes, std::vector<Fd>* descriptors) {
        for (;;) {
            const Io io = receive_packet(socket_, buffer, sizeof buffer_, bytes, descriptors);
            if (io == Io::kOk) return true;
            if (io == Io::kClosed) return false;
            pollfd ready{socket_.get(), POLLIN, 0};
            poll(&ready, 1, -1);
        }
    }
    bool is(ControlKind kind, size_t bytes) const {
        ControlHeader header;
        memcpy(&header, buffer_, sizeof header);
        return bytes >= sizeof header && header.kind == kind;
    }
    bool hear_place(size_t bytes, PlaceService* place) const {
        if (bytes != sizeof *place || !is(ControlKind::kPlace, bytes)) return false;
        memcpy(place, buffer_, sizeof *place);
        return true;
    }

    Fd socket_;
    alignas(8) std::byte buffer_[kControlBytesMax];
};

std::string with_reason(const char* what) {
    return std::string(what) + ": " + strerror(errno);
}

std::string no_staging(const ServiceLimits& limits) {
    const uint64_t bytes = uint64_t{limits.staging_slots} * limits.staging_slot_bytes;
    return "a service process cannot have " + show_size(bytes) +
           " of staging memory: blocks go directly from rank to rank instead. Give less "
           "(LONGSHORE_STAGING_BYTES, for each service process), or allow more memory";
}

// Whether this process could have aliases of memory like that: empty, or why not. A child tries it: with some
// cards UCX ends who does. Nothing of the network is open yet.
std::string try_alias(std::span<const std::byte> region, uint32_t limit_s) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    const Fd hears(ends[0]);
    Fd tells(ends[1]);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::string error;
        const NetworkPart* const part = load_own_network(NetworkKind::kUcx, &error);
        if (part != nullptr) error = part->try_alias(region);
        const std::string said = error.empty() ? "yes" : error.substr(0, kReasonBytes);
        _exit(write(tells.get(), said.data(), said.size()) != static_cast<ssize_t>(said.size()));
    }
    tells.reset();
    char said[kReasonBytes + 1] = {};
    pollfd told{hears.get(), POLLIN, 0};
    // The supervisor waits for twice as long.
    const bool heard = child > 0 && poll(&told, 1, static_cast<int>(limit_s * 500)) == 1 &&
                       read(hears.get(), said, kReasonBytes) > 0;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
    return !heard ? "UCX does not come back from the attempt" : strcmp(said, "yes") == 0 ? "" : said;
}

// `local` alone, where the job's nodes are all of this machine: each reads the others' ranks by descriptors.
std::unique_ptr<Fabric> make_fabric(const StartService& start, const NodeMemory& memory,
                                    const ServiceLimits& limits, const std::vector<NodeAddress>& nodes,
                                    const AddressBook& book, Network* network,
                                    std::unique_ptr<ShmFabric> local, std::string* error) {
    if (network == nullptr) {
        DescribedOptions described;
        described.memory = memory;
        described.self = {NodeId{start.parameters.node}, ServiceId{start.service}};
        described.incarnation = start.incarnation;
        return std::make_unique<DescribedFabric>(described, std::move(local));
    }
    if (start.parameters.host_agents != 0 && !book.aliases && limits.staging_slots == 0) {
        *error = "there is no staging memory, and without it nothing comes from the host";
        return nullptr;
    }
    NetworkOptions options;
    options.memory = memory;
    options.self = {NodeId{start.parameters.node}, ServiceId{start.service}};
    options.incarnation = start.incarnation;
    options.nodes = nodes;
    options.book = book.services();
    options.agents = book.agents();
    options.aliases = book.aliases;
    options.limit_ns = start.parameters.limit_s * 1'000'000'000ull;
    options.staging_only = limits.staging_only;
    options.tls = start.parameters.network_settings.tls != 0;
    return network->make_fabric(std::move(options), std::move(local), error);
}

int serve(Control& control, const StartService& start, std::vector<Fd> descriptors) {
    const ServiceId self{start.service};
    const uint32_t services = start.parameters.service_count;
    const size_t shares = start.port != 0;
    if (descriptors.size() != 2 + size_t{services} + shares || start.service >= services)
        return control.cannot_start("the supervisor's first message is not what it has to be");
    PortShare share;
    if (shares != 0) share = {std::move(descriptors.back()), start.port};
    // The life lock goes with the first close of any descriptor of this file: it stays open to the end.
    const int memory_file = descriptors[0].get();
    const Mapping memory_mapping = Mapping::shared(memory_file, start.memory_bytes);
    const Mapping sight = Mapping::shared(descriptors[1].get(), start.sight_bytes);
    NodeMemory memory;
    if (!memory_mapping || !sight)
        return control.cannot_start(with_reason("the node's memory cannot be mapped"));
    if (!NodeMemory::open(memory_mapping.data(), start.memory_bytes, &memory))
        return control.cannot_start("the node's memory is not that of this version");
    if (!take_life_lock(memory_file, self, start.incarnation))
        return control.cannot_start(with_reason("its lock in the node's memory cannot be had"));
    ServiceSlot& slot = memory.service(self);
    slot.sleeping.store(0);
    slot.pid.store(static_cast<uint32_t>(getpid()));
    slot.incarnation.store(start.incarnation);

    std::unique_ptr<Network> network;
    if (start.parameters.network) {
        std::string error, no_alias = "there is no memory to try it with";
        // Once it is settled nobody asks again.
        if (start.parameters.probe.bytes != 0 && start.incarnation == 1)
            no_alias = try_alias(start.parameters.probe.get(), start.parameters.limit_s);
        network = open_own_network(start.parameters.network_settings, start.parameters.host_agents != 0,
                                   std::move(share), &error);
        if (!network) return control.cannot_start(error);
        if (network->address().size() > kAddressBytesMax)
            return control.cannot_start(
                "the network's addresses are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)");
        control.report_worker(network->address(), no_alias);
    }
    AddressBook book({start.parameters.node_count, start.parameters.service_count,
                      start.parameters.network != 0, start.parameters.host_agents != 0});
    PlaceService place;
    if (!control.wait_for_book(&book, &place)) return 0;
    const std::vector<NodeAddress> nodes = book.nodes();

    ShmFabricOptions options;
    options.memory = memory;
    options.self = {NodeId{start.parameters.node}, self};
    options.incarnation = start.incarnation;
    options.nodes = nodes;
    for (uint32_t s = 0; s < services; ++s) options.doorbells.push_back(std::move(descriptors[2 + s]));
    options.limit_ns = start.parameters.limit_s * 1'000'000'000ull;
    options.memory_inaccessible = start.parameters.memory_inaccessible != 0;
    ServiceLimits limits = start.parameters.service_limits;
    if (book.aliases) limits.staging_only = false;
    options.staging_bytes = uint64_t{limits.staging_slots} * limits.staging_slot_bytes;
    options.staging_only = limits.staging_only;
    std::string error;
    std::unique_ptr<ShmFabric> local = ShmFabric::create(std::move(options), &error);
    if (!local) return control.cannot_start(error);
    if (!local->has_staging()) {
        // Emulated nodes share a machine: one of their service processes says it for all.
        if (limits.staging_slots != 0 && start.parameters.node == 0 && start.service == 0 &&
            start.incarnation == 1)
            control.report(no_staging(limits));
        limits.staging_slots = 0;
        limits.staging_only = false;
    }
    const Mapping block = Mapping::anonymous(ServiceEngine::bytes_needed(memory.limits(), limits));
    if (!block) return control.cannot_start(with_reason("no memory for what it keeps of operations"));
    if (!local->watch(control.fd()))
        return control.cannot_start(with_reason("its supervisor cannot be waited for"));
    const std::unique_ptr<Fabric> fabric =
        make_fabric(start, memory, limits, nodes, book, network.get(), std::move(local), &error);
    if (!fabric) return control.cannot_start(error);
    limits.sends_along = fabric->sends_along();
    WakeSet wake;
    ServiceEngine engine(block.data(), memory, self, start.incarnation, limits, &wake);
    std::vector<uint16_t> counts;
    for (const NodeAddress& node : nodes) counts.push_back(node.services);
    engine.set_peers(counts);
    fabric->wake(wake);

    ServiceLoop loop(start, memory, sight.data(), *fabric, engine);
    const auto settle = [&] {
        take_place(place);
        loop.set_place(place);
        SightLayout::slot(sight.data(), self).core.store(static_cast<uint32_t>(place.core + 1));
    };
    settle();
    for (uint32_t turns = 0;; ++turns) {
        // A look at the supervisor's socket is a system call: each would keep a rank that posts now waiting.
        const bool idle = loop.turn();
        if (!idle && turns % 256 != 0) continue;
        bool placed = false;
        if (!control.turn(&place, &placed)) return 0;
        if (placed) settle();
        const std::string problem = loop.take_problem();
        if (!problem.empty()) control.report(problem);
    }
}

}  // namespace

int run_service_process() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    Control control(kServiceControlFd);
    StartService start;
    std::vector<Fd> descriptors;
    if (!control.wait_for_start(&start, &descriptors))
        return control.cannot_start(with_reason("the supervisor's first message cannot be read"));
    // It may have died before the signal was asked for.
    if (getppid() != static_cast<pid_t>(start.supervisor_pid)) return 1;
    return serve(control, start, std::move(descriptors));
}

}  // namespace longshore
