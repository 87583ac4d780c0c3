#include "scale/world.h"

namespace longshore::scale {
namespace {

// Rounds in which nothing happens although something should: the engine waits for what will not come.
constexpr uint64_t kIdleRoundsMax = 1'000'000;

}  // namespace

World::World(const Shape& shape) : shape_(shape), workload_(shape), model_(shape, workload_) {
    for (uint32_t n = 0; n < shape.real_nodes; ++n)
        nodes_.push_back(std::make_unique<RealNode>(shape_, workload_, NodeId{static_cast<uint16_t>(n)}));
}

// Ranks whose time has come.
void World::enter(uint64_t round) {
    if (shape_.entry == Entry::kLast && !model_.has_told()) return;
    while (!all_entered() &&
           (shape_.entry != Entry::kStaggered || round >= uint64_t{entered_} * shape_.stagger_rounds)) {
        for (auto& node : nodes_) {
            const bool first = sequence_ == 1;
            const uint64_t before = first ? node->rank_bytes_touched(entered_) : 0;
            node->post(entered_, sequence_);
            if (first) touched_ = std::max(touched_, node->rank_bytes_touched(entered_) - before);
        }
        ++entered_;
    }
}

// False: nothing happened.
bool World::step(uint64_t round) {
    bool busy = now_.size() != 0;
    for (size_t i = 0; i < now_.size(); ++i)
        if (now_[i].to.node.value < shape_.real_nodes) nodes_[now_[i].to.node.value]->receive(now_[i]);
    now_.clear();
    enter(round);
    FrameQueue& out = later_;
    for (auto& node : nodes_) busy |= node->turn(round, &out);
    const size_t sent = out.size();
    for (size_t i = 0; i < sent; ++i) {
        const Frame frame = out[i];  // the queue grows meanwhile
        model_.on_frame(frame, round, &out);
    }
    model_.turn(round, &out);
    now_.swap(later_);
    for (const auto& node : nodes_) busy |= node->reads_under_way();
    return busy || now_.size() != 0 || !model_.done() || !all_entered();
}

OperationResult World::run() {
    ++sequence_;
    entered_ = 0;
    for (auto& node : nodes_) node->begin_counting();
    model_.begin(sequence_);
    Calibration calibration;
    calibration.start();
    uint64_t round = 0, idle = 0;
    bool complete = false;
    for (;; ++round) {
        if (step(round)) {
            idle = 0;
            continue;
        }
        // Only now: ranks compute meanwhile, and find their operations complete when they look.
        bool over = true;
        if (!complete) {
            complete = true;
            for (auto& node : nodes_) complete = complete && node->all_complete();
            over = false;
        }
        for (auto& node : nodes_) over &= complete && node->release_all() && node->idle();
        if (over) break;
        LONGSHORE_CHECK(++idle < kIdleRoundsMax);
    }
    calibration.stop();
    LONGSHORE_CHECK(model_.rows_open() == 0);

    OperationResult result;
    result.rounds = round;
    result.node_bytes_of_a_rank = touched_;
    for (const auto& node : nodes_) {
        result.post_ns = std::max(result.post_ns, calibration.ns(node->posts()) / shape_.ranks);
        for (uint32_t s = 0; s < shape_.services; ++s) {
            const ServiceWork& work = node->work(s);
            ServiceResult one;
            one.sent = work.sent;
            one.received = work.received;
            one.reads = work.reads;
            one.copies = work.copies;
            one.calls = work.next.count + work.on_frame.count + work.finish.count;
            one.next_ns = calibration.ns(work.next);
            one.on_frame_ns = calibration.ns(work.on_frame);
            one.finish_ns = calibration.ns(work.finish);
            result.services.push_back(one);
            result.rows_dropped += node->counters(s).dropped;
            LONGSHORE_CHECK(node->counters(s).malformed_messages == 0);
        }
    }
    return result;
}

}  // namespace longshore::scale
