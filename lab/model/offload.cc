#include "model/offload.h"

#include <algorithm>

#include "model/node_rank.h"
#include "model/rank_process.h"
#include "model/service_process.h"

namespace longshore::timed {
namespace {

// Whether what a rank gives is copied when it is posted, as the product does with little.
bool is_small(const Job& job) {
    const uint64_t sent = job.block_bytes * (is_shared(job.collective) ? 1 : job.group_size());
    return job.block_bytes <= job.service_limits().eager_bytes && sent <= kCopyBytesMax;
}

}  // namespace

Offload::Offload(const Job& job, Watcher* watcher)
    : job_(job),
      wires_(job_.machine, job.nodes, queue_, job.sharing, job.mirrored && !job.has_receivers()),
      timing_(job_, queue_, wires_, watcher) {
    for (uint32_t i = 0; i < job_.group_size(); ++i)
        spans_.push_back({i * job_.block_bytes, job_.block_bytes});
    for (uint32_t n = 0; n < job_.real_nodes(); ++n) make_node(n);
    if (job_.has_receivers()) {
        receivers_ = std::make_unique<Receivers>(*this);
    } else if (job_.mirrored) {
        mirror_ = std::make_unique<Mirror>(job_);
    }
}

Offload::~Offload() = default;

std::vector<Member> Offload::members_of(uint32_t group) const {
    std::vector<Member> members;
    for (uint32_t i = 0; i < job_.group_size(); ++i) {
        const uint32_t rank = job_.rank_of_group(group, i);
        const auto local = static_cast<uint16_t>(job_.local_of(rank));
        const uint16_t among_its_nodes = job_.groups == Groups::kWorld ? local : 0;
        members.push_back({NodeId{static_cast<uint16_t>(job_.node_of(rank))},
                           ServiceId{static_cast<uint16_t>(job_.service_of(local))}, LocalRank{local},
                           among_its_nodes});
    }
    return members;
}

void Offload::make_groups(uint32_t node) {
    const NodeLimits limits = job_.node_limits();
    const NodeMemory& memory = memories_[node];
    uint64_t at = memory.group_data_begin();
    const uint64_t end = at + limits.groups_bytes;
    for (uint32_t g = 0; g < job_.group_count(); ++g) {
        const std::vector<Member> members = members_of(g);
        const uint64_t bytes = NodeMemory::group_bytes(limits, members, NodeId{static_cast<uint16_t>(node)});
        LONGSHORE_CHECK(at + bytes <= end);
        memory.create_group(GroupSlot{g}, GroupId{g + 1}, members.data(), job_.group_size(), at);
        at += bytes;
    }
}

void Offload::make_node(uint32_t node) {
    const NodeLimits limits = job_.node_limits();
    blocks_.push_back(std::make_unique<scale::Mapped>(NodeLayout::of(limits).total_bytes));
    const NodeId id{static_cast<uint16_t>(node)};
    memories_.push_back(
        NodeMemory::create(blocks_.back()->data(), limits, id, static_cast<uint16_t>(job_.nodes),
                           static_cast<uint16_t>(job_.ranks_per_node), static_cast<uint16_t>(job_.services)));
    make_groups(node);
    for (uint32_t l = 0; l < job_.ranks_per_node; ++l) {
        const uint32_t rank = job_.rank_at(node, l);
        if (job_.is_on_dpu()) {
            ranks_.push_back(std::make_unique<RankProcess>(*this, rank));
        } else {
            ranks_.push_back(std::make_unique<NodeRank>(*this, rank));
        }
    }
    for (uint32_t s = 0; s < job_.services; ++s)
        services_.push_back(std::make_unique<ServiceProcess>(*this, node, ServiceId{static_cast<uint16_t>(s)},
                                                             job_.service_limits()));
}

SimulatedRank& Offload::rank_at(uint32_t node, uint32_t local) {
    return *ranks_[node * job_.ranks_per_node + local];
}

ServiceProcess& Offload::service_at(ServiceAddress at) {
    return *services_[at.node.value * job_.services + at.service.value];
}

void Offload::wake(uint32_t node, const WakeSet& wake) {
    for (uint32_t set = wake.services; set != 0; set &= set - 1)
        services_[node * job_.services + static_cast<uint32_t>(std::countr_zero(set))]->ring();
    for (uint32_t w = 0; w < std::size(wake.ranks); ++w)
        for (uint64_t set = wake.ranks[w]; set != 0; set &= set - 1)
            rank_at(node, w * 64 + static_cast<uint32_t>(std::countr_zero(set))).ring();
}

void Offload::take_core(uint32_t node, Time time) {
    NodeRank* least = nullptr;
    for (uint32_t local = 0; local < job_.ranks_per_node; ++local) {
        auto& rank = static_cast<NodeRank&>(rank_at(node, local));
        if (!rank.runs()) return;
        if (least == nullptr || rank.lost() < least->lost()) least = &rank;
    }
    least->lose_core(time);
}

uint32_t Offload::sleepers(uint32_t node, const WakeSet& wake) {
    auto count = static_cast<uint32_t>(std::popcount(wake.services));
    for (uint32_t w = 0; w < std::size(wake.ranks); ++w)
        for (uint64_t set = wake.ranks[w]; set != 0; set &= set - 1)
            count += rank_at(node, w * 64 + static_cast<uint32_t>(std::countr_zero(set))).has_to_be_woken();
    return count;
}

void Offload::send_frame(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame, Time delay,
                         uint8_t taken) {
    const auto send = [&](ServiceAddress one, ServiceAddress other, std::span<const std::byte> bytes) {
        const uint64_t tag =
            ServiceProcess::kFrame | ServiceProcess::with_taken(taken, keep_frame(one, other, bytes));
        if (!job_.is_on_dpu() && one.node == other.node) {
            wires_.note(delay + machine().mpi_shared, &service_at(other), tag);
            return;
        }
        wires_.send({one.node.value, service_side()}, {other.node.value, service_side()}, bytes.size(), delay,
                    &service_at(other), tag);
    };
    if (receivers_ != nullptr && from.node.value == 0 && to.node != from.node) {
        receivers_->hear(from, to, frame, delay);
        return;
    }
    if (mirror_ == nullptr || from.node == to.node) {
        send(from, to, frame);
        return;
    }
    scale::FrameQueue& said = mirror_->say(from, to, frame);
    for (size_t i = 0; i < said.size(); ++i) send(said[i].from, said[i].to, said[i].content());
}

uint32_t Offload::keep_frame(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame) {
    if (free_frames_.empty()) {
        free_frames_.push_back(static_cast<uint32_t>(frames_.size()));
        frames_.emplace_back();
    }
    const uint32_t kept = free_frames_.back();
    free_frames_.pop_back();
    frames_[kept].from = from;
    frames_[kept].to = to;
    frames_[kept].length = static_cast<uint32_t>(frame.size());
    std::copy(frame.begin(), frame.end(), frames_[kept].bytes.begin());
    return kept;
}

OperationArguments Offload::arguments(uint32_t rank, uint64_t sequence) const {
    const CollectiveRules& rules = rules_of(job_.collective);
    OperationArguments a;
    const LocalRank local{static_cast<uint16_t>(job_.local_of(rank))};
    a.group = GroupSlot{job_.group_of(rank)};
    a.rank = Rank{job_.rank_in_group(rank)};
    a.sequence = sequence;
    a.collective = job_.collective;
    a.algorithm = job_.algorithm;
    a.send = a.recv = {local, kBuffers, 0};
    // What is received lies behind what is sent.
    const uint64_t sent = job_.block_bytes * (rules.is_shared ? 1 : job_.group_size());
    a.recv.offset = (sent + 4095) & ~uint64_t{4095};
    a.send_block_bytes = a.recv_block_bytes = job_.block_bytes;
    if (rules.givers == Who::kRoot && !rules.gives(a.rank, a.root)) a.send_block_bytes = 0;
    a.send_is_stable = is_small(job_) && rules.gives(a.rank, a.root);
    if (!rules.by_vector) return a;
    a.recv_blocks = spans_.data();
    if (!rules.is_shared) a.send_blocks = spans_.data();
    return a;
}

double Offload::work_done() const {
    // That cross the network, of each group: to each other node, from the root, or from each of its ranks
    // there, once for the node or for each of its ranks.
    const uint64_t per_node = job_.group_size() / job_.nodes, pairs = uint64_t{job_.nodes} * (job_.nodes - 1);
    uint64_t blocks = is_shared(job_.collective) ? pairs * per_node : pairs * per_node * per_node;
    if (job_.collective == Collective::kBcast) blocks = job_.nodes - 1;
    blocks *= job_.group_count();
    return static_cast<double>(wires_.bytes_received()) / static_cast<double>(blocks * job_.block_bytes);
}

// Ranks enter an operation when all are done with the one before.
void Offload::begin_operation(uint64_t sequence) {
    if (sequence == sequence_) return;
    sequence_ = sequence;
    entered_.assign(job_.nodes, 0);
    if (receivers_ != nullptr) receivers_->begin_operation();
}

void Offload::rank_is_done(uint32_t rank, Time latency) {
    timing_.rank_is_done(rank, latency);
    if (receivers_ != nullptr && job_.node_of(rank) == 1)
        receivers_->rank_is_done(LocalRank{static_cast<uint16_t>(job_.local_of(rank))});
}

// A shared block is for all ranks of the node, whichever service process was told of it; others come to that
// of the rank.
void Offload::rank_has_entered(uint32_t node, LocalRank local) {
    ++entered_[node];
    ++late_.entered;
    const uint32_t own = job_.service_of(local.value);
    bool late = false, covered = true;
    for (uint32_t s = 0; s < job_.services; ++s) {
        if (s != own && !is_shared(job_.collective)) continue;
        const ServiceProcess& service = *services_[node * job_.services + s];
        if (!service.told_of(sequence_)) continue;
        late = true;
        covered = covered && service.was_covered();
    }
    late_.late += late;
    late_.covered += late && covered;
}

void Offload::count(Outcome* out) const {
    out->late = late_;
    for (size_t i = 0; i < services_.size(); ++i) {
        const auto& service = services_[i];
        const uint64_t alike = job_.alike(static_cast<uint32_t>(i / job_.services));
        const ServiceProcess::Work& work = service->work();
        out->busiest_service =
            std::max(out->busiest_service, static_cast<double>(work.busy) / static_cast<double>(out->span));
        out->messages += alike * work.messages;
        out->refused += alike * work.refused;
        out->reads += alike * work.reads;
        out->copies += alike * work.copies;
        const LateCounters late = service->late();
        out->late.told += late.received;
        out->late.told_late += late.late;
        out->late.handed_on += late.handed_on;
        out->late.rescued += late.rescued;
        out->late.parked += late.parked;
        LONGSHORE_CHECK(service->counters().malformed_messages == 0);
    }
}

Outcome Offload::run() {
    Timing::Hooks hooks;
    hooks.enter = [this](uint32_t rank, Time at, uint64_t sequence) {
        begin_operation(sequence);
        rank_at(job_.node_of(rank), job_.local_of(rank)).enter_at(at, sequence);
    };
    hooks.work_done = [this] { return work_done(); };
    hooks.begin_counting = [this] {
        for (auto& service : services_) service->begin_counting();
        late_ = {};
    };
    Outcome out = timing_.run(hooks);
    count(&out);
    return out;
}

Outcome simulate_offloaded(const Job& job, Watcher* watcher) {
    LONGSHORE_CHECK(refusal(job).empty());
    return Offload(job, watcher).run();
}

}  // namespace longshore::timed
