#include "cluster.h"

#include <algorithm>
#include <cstring>

namespace longshore {
namespace {

template <class T>
T* allocate(std::vector<std::unique_ptr<uint64_t[]>>& blocks, size_t bytes) {
    blocks.push_back(std::make_unique<uint64_t[]>(bytes / 8 + 16));
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(blocks.back().get()) + 63) & ~uintptr_t{63});
}

}  // namespace

Cluster::Cluster(const Shape& shape) : shape_(shape) {
    const uint16_t node_count = static_cast<uint16_t>(shape.ranks_of_node.size());
    shape_.service_limits.nodes_max = node_count;
    shape_.service_limits.services_per_node_max = shape.services;
    std::vector<Member>& members = members_;
    groups_.emplace_back();
    for (uint16_t n = 0; n < node_count; ++n)
        for (uint16_t r = 0; r < shape.ranks_of_node[n]; ++r)
            members.push_back(
                {NodeId{n}, ServiceId{static_cast<uint16_t>(r % shape.services)}, LocalRank{r}, r});
    for (uint32_t i = 0; i < members.size(); ++i) groups_[0].push_back(i);
    for (uint16_t n = 0; n < node_count; ++n) {
        nodes_.push_back(std::make_unique<Node>());
        Node& node = *nodes_.back();
        NodeLimits limits;
        limits.ranks_max = shape.ranks_of_node[n];
        limits.services_max = shape.services;
        limits.groups_max = 4;
        limits.operations_ahead_max = shape.ahead;
        limits.records_max = 64;
        limits.regions_max = 64;
        limits.chunk_bytes = shape.chunk_bytes;
        limits.claims_bytes = 1 << 18;
        limits.arena_bytes = 1 << 18;
        limits.groups_bytes = 1 << 16;
        const uint64_t bytes = NodeLayout::of(limits).total_bytes;
        node.bytes = std::make_unique<std::byte[]>(bytes + 4096);
        node.base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(node.bytes.get()) + 4095) &
                                                 ~uintptr_t{4095});
        node.memory = NodeMemory::create(node.base, limits, NodeId{n}, node_count,
                                         static_cast<uint16_t>(shape.ranks_of_node[n]),
                                         static_cast<uint16_t>(shape.services));
        node.memory.create_group(group(), GroupId{77}, members.data(), static_cast<uint32_t>(members.size()),
                                 node.memory.group_data_begin());
        node.regions.resize(limits.ranks_max);
        for (uint16_t r = 0; r < limits.ranks_max; ++r) {
            node.regions[r].push_back(reinterpret_cast<uint8_t*>(node.memory.arena(LocalRank{r})));
            Place place{n, LocalRank{r}, nullptr};
            place.engine = std::make_unique<RankEngine>(
                allocate<std::byte>(node.blocks, RankEngine::bytes_needed(limits)), node.memory, LocalRank{r},
                shape.generation);
            places_.push_back(std::move(place));
        }
        group_data_ = std::max(group_data_, node.memory.group(group()).data_bytes);
        node.clock_ns.resize(shape.services);
        node.reading.resize(shape.services);
        const std::vector<uint16_t> services(node_count, static_cast<uint16_t>(shape.services));
        for (uint16_t s = 0; s < shape.services; ++s) {
            WakeSet wake;
            node.services.push_back(std::make_unique<ServiceEngine>(
                allocate<std::byte>(node.blocks, ServiceEngine::bytes_needed(limits, shape_.service_limits)),
                node.memory, ServiceId{s}, 1, shape_.service_limits, &wake));
            node.services.back()->set_peers(services);
            node.staging.emplace_back(uint64_t{shape_.service_limits.staging_slots} *
                                      shape_.service_limits.staging_slot_bytes);
        }
    }
}

MemoryRef Cluster::add_region(uint32_t rank, void* base, uint64_t bytes) {
    Node& node = *nodes_[places_[rank].node];
    auto& regions = node.regions[places_[rank].local.value];
    const RegionId id{static_cast<uint32_t>(regions.size())};
    RegionEntry& entry = node.memory.region(places_[rank].local, id);
    entry.bytes = bytes;
    entry.generation.store(1);
    regions.push_back(static_cast<uint8_t*>(base));
    return {places_[rank].local, id, 0};
}

uint8_t* Cluster::address(Node& node, uint32_t s, const MemoryRef& at) {
    if (at.rank == kStaging) return node.staging[s].data() + at.offset;
    return node.regions[at.rank.value][at.region.value] + at.offset;
}

uint8_t* Cluster::address(ServiceAddress owner, const RegionName& name, uint64_t offset) {
    Node& node = *nodes_[owner.node.value];
    if (name.rank == kStaging) return node.staging[name.region.value].data() + offset;
    return node.regions[name.rank.value][name.region.value] + offset;
}

PostResult Cluster::post(uint32_t rank, OperationArguments arguments, RecordId* record) {
    WakeSet wake;
    arguments.group = group();
    arguments.rank = Rank{rank};
    return places_[rank].engine->post(arguments, true, record, &wake);
}

void Cluster::finish_read(uint32_t n, uint32_t s, const Action& a, WakeSet* wake) {
    Node& node = *nodes_[n];
    move(address(node, s, a.to), address(a.peer, a.name, a.offset), a.bytes);
    ++reads_between_nodes;
    bytes_between_nodes += a.bytes;
    node.services[s]->finish_read(a.id, MoveResult::kMoved, wake);
}

bool Cluster::turn_of_service(uint32_t n, uint32_t s) {
    Node& node = *nodes_[n];
    ServiceEngine& engine = *node.services[s];
    WakeSet wake;
    bool busy = false;
    for (size_t i = node.inbox.size(); i != 0; --i) {
        auto frame = std::move(node.inbox.front());
        node.inbox.pop_front();
        if (frame.first == s) {
            engine.on_frame(frame.second, &wake);
            busy = true;
        } else {
            node.inbox.push_back(std::move(frame));
        }
    }
    auto& reading = node.reading[s];
    for (auto& [turns, read] : reading) --turns;
    for (; !reading.empty() && reading.front().first == 0; reading.pop_front())
        finish_read(n, s, reading.front().second, &wake);
    Action a;
    if (!engine.next(&a, &wake)) return busy || !reading.empty();
    uint64_t bytes = 0;
    switch (a.kind) {
        case Action::Kind::kCopy:
            if (a.copy.bytes != 0)
                move(address(node, s, a.copy.to), address(node, s, a.copy.from), a.copy.bytes);
            bytes = a.copy.bytes;
            engine.finish_copy(a.copy, MoveResult::kMoved, &wake);
            break;
        case Action::Kind::kRead:
            bytes = a.bytes;
            read_from[{NodeId{static_cast<uint16_t>(n)}, ServiceId{static_cast<uint16_t>(s)}}].push_back(
                a.peer.node);
            if (shape_.read_turns != 0) {
                reading.emplace_back(shape_.read_turns, a);
            } else {
                finish_read(n, s, a, &wake);
            }
            break;
        case Action::Kind::kMove:
            move(address(node, s, a.to), address(node, s, a.from), a.bytes);
            bytes = a.bytes;
            engine.finish_read(a.id, MoveResult::kMoved, &wake);
            break;
        case Action::Kind::kWrite:
            move(address(node, s, a.to), a.data.data(), a.data.size());
            bytes = a.bytes;
            bytes_between_nodes += a.bytes;
            engine.finish_read(a.id, MoveResult::kMoved, &wake);
            break;
        case Action::Kind::kSend:
            count({NodeId{static_cast<uint16_t>(n)}, ServiceId{static_cast<uint16_t>(s)}}, a.peer, a.data);
            nodes_[a.peer.node.value]->inbox.emplace_back(
                a.peer.service.value, std::vector<std::byte>(a.data.begin(), a.data.end()));
            break;
        case Action::Kind::kSendAlong:
            break;
    }
    bytes_moved += bytes;
    node.clock_ns[s] += kActionNs + bytes / kBytesPerNs;
    return true;
}

void Cluster::count(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame) {
    FrameReader reader;
    FrameHeader header;
    Message message;
    if (!reader.start(frame, &header)) return;
    bool control = true;
    while (reader.next(&message) == FrameReader::Result::kMessage) {
        requests += message.kind == MessageKind::kAgain;
        control = control && message.kind != MessageKind::kSmallBlock;
    }
    control_sent[from] += control;
    control_received[to] += control;
}

void Cluster::move(uint8_t* to, const void* from, uint64_t bytes) const {
    if (shape_.move_bytes) memcpy(to, from, bytes);
}

bool Cluster::all_complete(const std::vector<std::pair<uint32_t, RecordId>>& records) {
    return std::all_of(records.begin(), records.end(), [&](const auto& r) {
        return places_[r.first].engine->poll(r.second) == Progress::kComplete;
    });
}

uint64_t Cluster::now_ns() const {
    uint64_t now = UINT64_MAX;
    for (const auto& node : nodes_)
        for (const uint64_t clock : node->clock_ns) now = std::min(now, clock);
    return now;
}

bool Cluster::step_timed() {
    constexpr uint64_t kIdleNs = 100;
    // What others have sent by then has arrived.
    uint32_t node = 0, service = 0;
    for (uint32_t n = 0; n < nodes_.size(); ++n)
        for (uint32_t s = 0; s < shape_.services; ++s)
            if (nodes_[n]->clock_ns[s] < nodes_[node]->clock_ns[service]) node = n, service = s;
    const bool busy = turn_of_service(node, service);
    if (!busy) nodes_[node]->clock_ns[service] += kIdleNs;
    return busy;
}

uint64_t Cluster::run_timed(const std::vector<std::pair<uint32_t, RecordId>>& until) {
    constexpr uint32_t kIdleStepsMax = 1000;
    for (uint32_t idle = 0; idle < kIdleStepsMax;) {
        idle = step_timed() ? 0 : idle + 1;
        if (all_complete(until)) return now_ns();
    }
    return 0;
}

GroupSlot Cluster::add_group(const std::vector<uint32_t>& ranks) {
    const GroupSlot slot{static_cast<uint32_t>(groups_.size())};
    groups_.push_back(ranks);
    std::vector<Member> members;
    std::vector<uint16_t> index(nodes_.size());
    for (const uint32_t r : ranks) {
        members.push_back(members_[r]);
        members.back().local_index = index[places_[r].node]++;
    }
    uint64_t used = 0;
    for (size_t n = 0; n < nodes_.size(); ++n) {
        if (index[n] == 0) continue;
        const NodeMemory& memory = nodes_[n]->memory;
        memory.create_group(slot, GroupId{77 + slot.value}, members.data(),
                            static_cast<uint32_t>(members.size()), memory.group_data_begin() + group_data_);
        used = std::max(used, memory.group(slot).data_bytes);
    }
    group_data_ += used;
    return slot;
}

PostResult Cluster::post_in(GroupSlot group, uint32_t member, OperationArguments arguments,
                            RecordId* record) {
    WakeSet wake;
    arguments.group = group;
    arguments.rank = Rank{member};
    return places_[groups_[group.value][member]].engine->post(arguments, true, record, &wake);
}

bool Cluster::run(const std::vector<std::pair<uint32_t, RecordId>>& until, uint32_t turns_max) {
    uint32_t idle = 0;
    for (uint32_t turn = 0; turn < turns_max; ++turn) {
        bool busy = false;
        if (shape_.run_services)
            for (uint32_t n = 0; n < nodes_.size(); ++n)
                for (uint32_t s = 0; s < shape_.services; ++s) busy |= turn_of_service(n, s);
        bool all = true;
        for (const auto& [r, record] : until) {
            Node& node = *nodes_[places_[r].node];
            RankEngine& engine = *places_[r].engine;
            Copy copy;
            WakeSet wake;
            if (shape_.cooperative && engine.poll(record) == Progress::kPending &&
                engine.claim(record, &copy)) {
                if (copy.bytes != 0)
                    memcpy(address(node, 0, copy.to), address(node, 0, copy.from), copy.bytes);
                engine.finish(copy, MoveResult::kMoved, &wake);
                busy = true;
            }
            all &= engine.poll(record) == Progress::kComplete;
        }
        if (all && !busy) return true;
        idle = busy ? 0 : idle + 1;
        if (idle > 3) return false;
    }
    return false;
}

void Cluster::release(uint32_t rank, RecordId record) {
    WakeSet wake;
    places_[rank].engine->release(record, &wake);
}

bool Cluster::clean() {
    WakeSet wake;
    bool clean = true;
    for (Place& place : places_) {
        clean &= place.engine->reap(&wake) == 0 && place.engine->arena().used_bytes() == 0;
        for (auto& word : nodes_[place.node]->memory.rank(place.local).active) clean &= word.load() == 0;
    }
    for (auto& node : nodes_)
        for (auto& service : node->services) {
            Action a;
            clean &= !service->next(&a, &wake) && service->idle();
        }
    return clean;
}

}  // namespace longshore
