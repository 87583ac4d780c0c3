#include "fabric/shm/shm_fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "fabric/shm/connection.h"

namespace longshore {
namespace {

constexpr size_t kMessagesPerPoll = 16;
constexpr size_t kEventsPerWait = 16;
constexpr uint64_t kSocketTurnNs = 10'000'000;    // between looks at the sockets while busy
constexpr uint64_t kUnsettledWaitNs = 2'000'000;  // the longest sleep while a connection is being made

int wait_epoll(int epoll, epoll_event* events, int count, uint64_t wait_ns) {
    const timespec timeout{static_cast<time_t>(wait_ns / 1000000000u),
                           static_cast<long>(wait_ns % 1000000000u)};
    const long got = syscall(SYS_epoll_pwait2, epoll, events, count, &timeout, nullptr, 0);
    if (got >= 0 || errno != ENOSYS) return static_cast<int>(got);
    return epoll_wait(epoll, events, count, static_cast<int>(wait_ns / 1000000u));
}

// Where the kernel promises more memory than there is (overcommit), it kills whoever takes it at its word.
uint64_t available_bytes() {
    FILE* file = fopen("/proc/meminfo", "re");
    if (file == nullptr) return UINT64_MAX;
    char line[128];
    unsigned long long kib = 0;
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != nullptr)
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    fclose(file);
    return found ? uint64_t{kib} * 1024 : UINT64_MAX;
}

// None, and errno says why, if it cannot be had. Where everything is staged it is there from the start; else
// it is touched only if some operation asks for staging.
Mapping staging_memory(const ShmFabricOptions& options) {
    if (options.staging_bytes == 0) return {};
    if (options.staging_bytes > available_bytes()) {
        errno = ENOMEM;
        return {};
    }
    return Mapping::accounted(options.staging_bytes, options.staging_only);
}

}  // namespace

ShmFabric::ShmFabric(ShmFabricOptions options)
    : options_(std::move(options)),
      doorbell_(options_.memory, std::move(options_.doorbells)),
      staging_(staging_memory(options_)),
      copier_(options_.memory, {.is_rank = false,
                                .self = LocalRank{},
                                .memory_inaccessible = options_.memory_inaccessible,
                                .staging = {staging_.data(), staging_ ? staging_.size() : 0},
                                .staging_only = options_.staging_only && staging_}),
      messages_(std::make_unique_for_overwrite<std::byte[]>(kMessagesPerPoll * kFrameBytesMax)) {
    outgoing_.resize(options_.nodes.size());
    for (size_t node = 0; node < outgoing_.size(); ++node)
        outgoing_[node].resize(options_.nodes[node].services);
}

ShmFabric::~ShmFabric() = default;

std::unique_ptr<ShmFabric> ShmFabric::create(ShmFabricOptions options, std::string* error) {
    std::unique_ptr<ShmFabric> fabric(new ShmFabric(std::move(options)));
    if (!fabric->start(error)) fabric.reset();
    return fabric;
}

bool ShmFabric::start(std::string* error) {
    const auto fail = [&](const char* what) {
        *error = std::string(what) + ": " + strerror(errno);
        return false;
    };
    if (options_.self.node.value >= options_.nodes.size()) return fail("this node is not among the job's");
    const NodeAddress& own = options_.nodes[options_.self.node.value];
    if (options_.self.service.value >= doorbell_.services()) return fail("no doorbell");
    listener_ = listen_at(service_socket_name(own.name, options_.self.service.value));
    if (!listener_) return fail("cannot listen");
    epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    bell_file_ = make_memory_file("longshore-bell", kBellBytes);
    if (!epoll_ || !bell_file_) return fail("no descriptors");
    bell_ = Mapping::shared(bell_file_.get(), kBellBytes);
    if (!bell_) return fail("no memory");
    if (staging_) {
        const auto pid = static_cast<uint32_t>(getpid());
        encode_span(
            {pid, process_start_time(pid), reinterpret_cast<uint64_t>(staging_.data()), staging_.size()},
            staging_descriptor_);
        // Other nodes' service processes read it, where the system asks for permission.
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }
    if (!watch(listener_.get(), Own::kListener, 0) ||
        !watch(doorbell_.eventfd(options_.self.service), Own::kDoorbell, 0))
        return fail("epoll");
    return true;
}

bool ShmFabric::watch(int fd) {
    return watch(fd, Own::kOthers, 0);
}

bool ShmFabric::watch(int fd, Own what, uint32_t which) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = uint64_t{static_cast<uint32_t>(what)} << 32 | which;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void ShmFabric::refuse(const char* what) {
    ++counters_.refused;
    if (!std::exchange(told_refused_, true)) problem_ = std::string("refused ") + what;
}

FabricCounters ShmFabric::counters() const {
    FabricCounters counters = counters_;
    const CopierCounters& copied = copier_.counters();
    counters.refused += copied.refused;
    counters.bytes_mapped = copied.bytes_mapped;
    counters.bytes_peer_copied = copied.bytes_peer_copied;
    counters.bytes_bounced = copied.bytes_bounced;
    return counters;
}

std::string ShmFabric::take_problem() {
    if (problem_.empty() && !told_forbidden_ && copier_.counters().forbidden_error != 0) {
        told_forbidden_ = true;
        problem_ =
            std::string("process_vm_readv was forbidden: ") + strerror(copier_.counters().forbidden_error);
    }
    return std::exchange(problem_, {});
}

// --- messages

ShmFabric::Outgoing* ShmFabric::find(ServiceAddress peer) {
    if (peer.node.value >= outgoing_.size()) return nullptr;
    auto& services = outgoing_[peer.node.value];
    return peer.service.value < services.size() ? &services[peer.service.value] : nullptr;
}

Post ShmFabric::send(ServiceAddress to, std::span<const std::byte> message) {
    Outgoing* out = find(to);
    if (out == nullptr || out->state == Outgoing::State::kLost || message.size() > kFrameBytesMax) {
        ++counters_.dropped;
        return Post::kAccepted;
    }
    if (out->state == Outgoing::State::kNone) connect(to, *out);
    if (out->state == Outgoing::State::kConnecting) turn_outgoing(to, *out);
    if (out->state == Outgoing::State::kLost) {
        ++counters_.dropped;
        return Post::kAccepted;
    }
    if (out->state != Outgoing::State::kReady) return Post::kAgain;
    switch (out->writer.push(message)) {
        case RingResult::kOk:
            break;
        case RingResult::kCorrupt:
            refuse("a ring whose reader is out of bounds");
            connection_refused(to, *out);
            return Post::kAgain;
        default:
            return Post::kAgain;
    }
    ++counters_.messages_sent;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (reinterpret_cast<BellPage*>(out->bell.data())->sleeping.load(std::memory_order_relaxed) != 0)
        ring_eventfd(out->doorbell.get());
    return Post::kAccepted;
}

bool ShmFabric::anything_to_read() const {
    if (!done_.empty()) return true;
    return std::any_of(incoming_.begin(), incoming_.end(),
                       [](const auto& in) { return in->greeted && !in->reader.empty(); });
}

size_t ShmFabric::collect(std::span<FabricEvent> events) {
    size_t count = 0;
    while (count < events.size() && !done_.empty()) {
        events[count++] = done_.front();
        done_.pop_front();
    }
    size_t taken = 0, looked = 0;
    while (count < events.size() && taken < kMessagesPerPoll && looked < incoming_.size()) {
        Incoming& in = *incoming_[next_incoming_ % incoming_.size()];
        if (!in.greeted) {
            ++looked, ++next_incoming_;
            continue;
        }
        std::byte* buffer = messages_.get() + taken * kFrameBytesMax;
        size_t bytes = 0;
        const RingResult result = in.reader.pop({buffer, kFrameBytesMax}, &bytes);
        if (result == RingResult::kOk) {
            ++taken, looked = 0;
            ++counters_.messages_received;
            FabricEvent& event = events[count++];
            event = {};
            event.kind = FabricEvent::Kind::kMessage;
            event.peer = in.from;
            event.message = {buffer, bytes};
            continue;
        }
        if (result == RingResult::kCorrupt) {
            refuse("a message whose length is out of bounds");
            incoming_.erase(incoming_.begin() + static_cast<ptrdiff_t>(next_incoming_ % incoming_.size()));
            continue;
        }
        ++looked, ++next_incoming_;
    }
    return count;
}

size_t ShmFabric::poll(std::span<FabricEvent> events, uint64_t wait_ns) {
    // A ring since the last poll began may have been for something its caller has not seen: then do not
    // sleep.
    const uint32_t rung =
        options_.memory.service(options_.self.service).events.load(std::memory_order_acquire);
    const bool was_rung = rung != events_seen_;
    events_seen_ = rung;
    size_t count = collect(events);
    if (count == 0 && wait_ns > 0 && !was_rung) {
        const bool by_socket = block(wait_ns);
        turn_sockets_if(by_socket);
        return collect(events);
    }
    if (turn_sockets_if(false)) {
        if (count == 0) count = collect(events);
    }
    return count;
}

// Sockets are looked at when they have woken us, while a connection is on its way, and now and then.
bool ShmFabric::turn_sockets_if(bool woken) {
    const uint64_t now = now_ns();
    if (!woken && !unsettled_ && now < next_turn_ns_) return false;
    next_turn_ns_ = now + kSocketTurnNs;
    turn_sockets();
    return true;
}

// Whether a socket has ended the wait.
bool ShmFabric::block(uint64_t wait_ns) {
    bool by_socket = false;
    ServiceSlot& slot = options_.memory.service(options_.self.service);
    auto& bell = *reinterpret_cast<BellPage*>(bell_.data());
    if (unsettled_) wait_ns = std::min(wait_ns, kUnsettledWaitNs);
    slot.sleeping.store(1, std::memory_order_relaxed);
    bell.sleeping.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (slot.events.load(std::memory_order_acquire) == events_seen_ && !anything_to_read()) {
        epoll_event ready[kEventsPerWait];
        const int count = wait_epoll(epoll_.get(), ready, kEventsPerWait, wait_ns);
        for (int i = 0; i < count; ++i) {
            const auto what = static_cast<Own>(ready[i].data.u64 >> 32);
            if (what == Own::kDoorbell) take_event(ready[i].data.u64);
            by_socket |= what != Own::kDoorbell && what != Own::kOthers;
        }
    }
    slot.sleeping.store(0, std::memory_order_relaxed);
    bell.sleeping.store(0, std::memory_order_relaxed);
    // Before its caller looks at groups: while it slept they may have been replaced.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return by_socket;
}

// --- bytes

void ShmFabric::complete(uint64_t id, MoveResult result) {
    done_.push_back(FabricEvent::moved(id, result));
}

Post ShmFabric::copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
                     uint64_t working_set) {
    complete(id, copier_.copy(from, to, bytes, working_set));
    return Post::kAccepted;
}

Post ShmFabric::read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
                     const AlongPart*) {
    const ProcessSpan* span = imports_.find(from);
    complete(id, span != nullptr ? copier_.read(*span, offset, to, bytes) : MoveResult::kFailed);
    return Post::kAccepted;
}

Post ShmFabric::write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) {
    complete(id, copier_.write(from, to));
    return Post::kAccepted;
}

Post ShmFabric::import_region(ServiceAddress owner, const RegionName& name,
                              std::span<const std::byte> descriptor, uint64_t id) {
    ProcessSpan span;
    done_.push_back(FabricEvent::imported(id, decode_span(descriptor, &span) ? imports_.add(span) : 0));
    return Post::kAccepted;
}

}  // namespace longshore
