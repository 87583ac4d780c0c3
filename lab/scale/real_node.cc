#include "scale/real_node.h"

#include <cstring>

namespace longshore::scale {

RealNode::RealNode(const Shape& shape, Workload& workload, NodeId id)
    : shape_(shape), workload_(workload), id_(id), bytes_(NodeLayout::of(shape.node_limits()).total_bytes) {
    const NodeLimits limits = shape.node_limits();
    const ServiceLimits service_limits = shape.service_limits();
    memory_ = NodeMemory::create(bytes_.data(), limits, id, static_cast<uint16_t>(shape.nodes),
                                 static_cast<uint16_t>(shape.ranks), static_cast<uint16_t>(shape.services));
    const std::vector<Member> members = workload.members();
    LONGSHORE_CHECK(NodeMemory::group_bytes(limits, members, id) <= limits.groups_bytes);
    memory_.create_group(GroupSlot{0}, kGroup, members.data(), shape.size(), memory_.group_data_begin());
    for (uint32_t r = 0; r < shape.ranks; ++r) {
        const LocalRank local{static_cast<uint16_t>(r)};
        LocalOne one;
        one.block = std::make_unique<Mapped>(RankEngine::bytes_needed(limits));
        one.engine = std::make_unique<RankEngine>(one.block->data(), memory_, local);
        ranks_.push_back(std::move(one));
        RegionEntry& region = memory_.region(local, kBuffers);
        region.bytes = UINT64_MAX / 2;
        region.generation.store(kBuffersGeneration);
    }
    const std::vector<uint16_t> counts(shape.nodes, static_cast<uint16_t>(shape.services));
    for (uint32_t s = 0; s < shape.services; ++s) {
        WakeSet wake;
        const ServiceId id_of{static_cast<uint16_t>(s)};
        services_.push_back(
            std::make_unique<Service>(id_of, ServiceEngine::bytes_needed(limits, service_limits)));
        services_[s]->engine = std::make_unique<ServiceEngine>(services_[s]->block.data(), memory_, id_of,
                                                               uint16_t{1}, service_limits, &wake);
        services_[s]->engine->set_peers(counts);
    }
}

void RealNode::wake_all() {
    for (auto& service : services_) service->awake = true;
}

void RealNode::post(uint32_t local, uint64_t sequence) {
    LocalOne& one = ranks_[local];
    LONGSHORE_CHECK(!one.open);
    const uint32_t rank = id_.value * shape_.ranks + local;
    OperationArguments a = workload_.arguments(rank, sequence, id_.value * shape_.ranks + local);
    if (workload_.is_small() && workload_.gives(rank, sequence)) {
        one.copy_bytes = workload_.send_bytes(rank);
        one.copy = one.engine->arena().allocate(one.copy_bytes);
        LONGSHORE_CHECK(one.copy != 0);
        a.send = {a.send.rank, kArenaRegion, one.copy - memory_.arena_begin(one.engine->self())};
        a.send_is_stable = true;
    }
    WakeSet wake;
    const PostResult posted = posts_.time([&] { return one.engine->post(a, true, &one.record, &wake); });
    LONGSHORE_CHECK(posted == PostResult::kPosted);
    one.open = true;
    wake_all();
}

bool RealNode::all_complete() {
    for (LocalOne& one : ranks_) {
        if (!one.open || one.engine->poll(one.record) != Progress::kComplete) return false;
        LONGSHORE_CHECK(one.engine->error(one.record) == OperationError::kNone);
    }
    return true;
}

bool RealNode::release_all() {
    WakeSet wake;
    bool all = true;
    for (LocalOne& one : ranks_) {
        if (one.open) one.engine->release(one.record, &wake);
        one.open = false;
        const bool over = one.engine->reap(&wake) == 0;
        if (over && one.copy_bytes != 0) {
            one.engine->arena().release(one.copy, one.copy_bytes);
            one.copy_bytes = 0;
        }
        all &= over;
    }
    wake_all();
    return all;
}

void RealNode::receive(const Frame& frame) {
    Service& service = *services_[frame.to.service.value];
    WakeSet wake;
    service.work.received.count(frame.content());
    service.work.on_frame.time([&] { service.engine->on_frame(frame.content(), &wake); });
    wake_all();
}

bool RealNode::turn(uint64_t round, FrameQueue* out) {
    bool busy = false;
    for (auto& one : services_) {
        Service& service = *one;
        WakeSet wake;
        while (!service.reads.empty() && service.reads.front().over_at <= round) {
            const uint32_t id = service.reads.front().id;
            service.reads.pop_front();
            service.work.finish.time([&] { service.engine->finish_read(id, MoveResult::kMoved, &wake); });
            wake_all();
        }
        if (!service.awake) continue;
        Action action;
        service.awake = service.work.next.time([&] { return service.engine->next(&action, &wake); });
        if (!service.awake) continue;
        busy = true;
        carry_out(service, action, round, out);
    }
    return busy;
}

void RealNode::carry_out(Service& service, const Action& a, uint64_t round, FrameQueue* out) {
    WakeSet wake;
    ServiceWork& work = service.work;
    switch (a.kind) {
        case Action::Kind::kCopy:
            ++work.copies;
            work.finish.time([&] { service.engine->finish_copy(a.copy, MoveResult::kMoved, &wake); });
            wake_all();
            break;
        case Action::Kind::kRead:
            ++work.reads;
            service.reads.push_back({a.id, round + shape_.read_rounds});
            break;
        case Action::Kind::kWrite:
            ++work.reads;
            work.finish.time([&] { service.engine->finish_read(a.id, MoveResult::kMoved, &wake); });
            wake_all();
            break;
        case Action::Kind::kSend: {
            work.sent.count(a.data);
            Frame& frame = out->add();
            frame.from = {id_, service.id};
            frame.to = a.peer;
            frame.length = static_cast<uint32_t>(a.data.size());
            memcpy(frame.bytes.data(), a.data.data(), a.data.size());
            break;
        }
        case Action::Kind::kMove:
        case Action::Kind::kSendAlong:
            LONGSHORE_CHECK(false);  // there is no staging memory, and nothing goes along
    }
}

bool RealNode::reads_under_way() const {
    for (const auto& service : services_)
        if (!service->reads.empty()) return true;
    return false;
}

bool RealNode::idle() const {
    for (const auto& service : services_)
        if (!service->engine->idle()) return false;
    return true;
}

void RealNode::begin_counting() {
    for (auto& service : services_) service->work = {};
    posts_ = {};
}

uint64_t RealNode::rank_bytes_touched(uint32_t local) const {
    const NodeLayout layout = NodeLayout::of(memory_.limits());
    return bytes_.touched(layout.rank_areas + local * layout.rank_area_bytes, layout.rank_area_bytes);
}

}  // namespace longshore::scale
