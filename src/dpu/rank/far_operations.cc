#include "dpu/rank/far_operations.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "dpu/transport/host_region.h"

namespace longshore {
namespace {

// A region that is never opened: where there should be memory and is none, so that all who want it learn of
// it.
constexpr uint32_t kNoRegion = kFarRegionsMax;
enum Side { kSent, kReceived };
// Smaller blocks take less time to put into every buffer than to say who has them.
constexpr uint64_t kBlockBytesMin = 4096;

bool is_open(const FarOperation& op) {
    return op.state == ls_operation::State::kWaiting || op.state == ls_operation::State::kPosted;
}

}  // namespace

// --- buffers

void FarOperations::place(FarOperation& op, int side, const void* base, uint64_t bytes, SessionPost* post) {
    const ls_shared_memory& shared = c_.options.shared;
    uint32_t region = kNoRegion;
    uint64_t offset = 0;
    if (base == nullptr) {
        auto* const bounce = static_cast<std::byte*>(shared.allocate(bytes));
        if (bounce != nullptr && !regions_.is_shared(bounce, bytes, &op.places[side]))
            shared.release(bounce);
        else
            op.bounces[side] = bounce;
        base = op.bounces[side];
    }
    // A rank that has withdrawn its memory enters all the same: who waits for its blocks gets an error so.
    if (base == nullptr || withdrawn_ || !regions_.pin(base, bytes, &region, &offset)) region = kNoRegion;
    op.regions[side] = region;
    if (side == kReceived) op.received = static_cast<std::byte*>(const_cast<void*>(base));
    (side == kSent ? post->send_region : post->recv_region) = region;
    (side == kSent ? post->send_offset : post->recv_offset) = offset;
}

void FarOperations::place_sent(FarOperation& op, SessionPost* post) {
    Plan& plan = op.plan;
    if (plan.send_bytes == 0) return;
    if (plan.copy_send) {
        post->data.resize(plan.send_bytes);
        copy_out(plan, post->data.data());
    } else if (!plan.snapshot && regions_.is_shared(plan.send, plan.send_bytes, &op.places[kSent])) {
        place(op, kSent, plan.send, plan.send_bytes, post);
    } else {
        // Only the blocks: nobody knows what is between them.
        if (plan.copy_from.empty() && !plan.send_blocks.empty())
            plan.send_bytes = pack(&plan.send_blocks, &plan.copy_from);
        place(op, kSent, nullptr, plan.send_bytes, post);
        if (op.bounces[kSent] != nullptr) copy_out(plan, op.bounces[kSent]);
    }
}

void FarOperations::place_received(FarOperation& op, SessionPost* post) {
    Plan& plan = op.plan;
    if (plan.recv_bytes == 0) return;
    if (regions_.is_shared(plan.recv, plan.recv_bytes, &op.places[kReceived]))
        return place(op, kReceived, plan.recv, plan.recv_bytes, post);
    if (!plan.recv_blocks.empty()) plan.recv_bytes = pack(&plan.recv_blocks, &op.scatter);
    place(op, kReceived, nullptr, plan.recv_bytes, post);
}

// What has arrived for a buffer that is not shared memory. This rank's own block, where it was in place, has
// not.
static void copy_back(const FarOperation& op) {
    const Plan& plan = op.plan;
    const std::byte* const from = op.bounces[kReceived];
    const uint32_t own = op.arguments.self_in_place ? op.group->rank : UINT32_MAX;
    for (size_t i = 0; i < op.scatter.size(); ++i) {
        if (i != own && op.scatter[i].bytes != 0)
            memcpy(plan.recv + op.scatter[i].offset, from + plan.recv_blocks[i].offset, op.scatter[i].bytes);
    }
    if (!op.scatter.empty()) return;
    const uint64_t block = op.arguments.recv_block_bytes;
    const bool skips = own != UINT32_MAX && (own + uint64_t{1}) * block <= plan.recv_bytes &&
                       rules_of(op.arguments.collective).taken == Blocks::kPerRank;
    const uint64_t before = skips ? own * block : plan.recv_bytes;
    memcpy(plan.recv, from, before);
    if (skips) memcpy(plan.recv + before + block, from + before + block, plan.recv_bytes - before - block);
}

// --- operations

FarOperation& FarOperations::take_free() {
    if (free_.empty()) {
        operations_.push_back(std::make_unique<FarOperation>());
        operations_.back()->far_id = static_cast<uint32_t>(operations_.size() - 1);
        free_.push_back(operations_.back().get());
    }
    return *free_.back();
}

int FarOperations::start(FarGroup& group, const ls_arguments& given, ls_operation** out) {
    if (connection_.is_lost()) {
        connection_.say_lost();
        return LS_ERR_SERVICE;
    }
    // There is no memory that the ranks of a host share with its DPU.
    if (given.algorithm == LS_STAGED_HIERARCHICAL) return LS_ERR_ARGUMENT;
    FarOperation& op = take_free();
    op.scatter.clear();
    const uint64_t eager_bytes = std::min<uint64_t>(c_.options.eager_bytes, kEagerBytesMax);
    const int rc = make_plan(given, group.rank, group.size, eager_bytes, &op.plan, &op.arguments);
    if (rc != LS_OK) return rc;
    free_.pop_back();
    op.group = &group;
    op.state = ls_operation::State::kWaiting;
    op.result = LS_IN_PROGRESS;
    op.in_call = given.blocking != 0;
    op.arguments.sequence = ++group.sequence;
    ++group.open;
    group.waiting.push_back(&op);
    ++c_.waiting_count;
    post_waiting(group);
    *out = &op;
    return LS_OK;
}

// Of a rank that has withdrawn its memory no operation needs a region.
bool FarOperations::may_post(const FarGroup& group) const {
    return (posts_ < kFarPostsMax || group.posts < kFarPostsOfGroup) && (withdrawn_ || regions_.has_room(2));
}

void FarOperations::post_waiting(FarGroup& group) {
    while (!group.waiting.empty() && may_post(group)) {
        auto& op = static_cast<FarOperation&>(*group.waiting.front());
        group.waiting.pop_front();
        --c_.waiting_count;
        post(op, group);
    }
}

void FarOperations::post_waiting() {
    if (c_.waiting_count == 0) return;
    for (ls_group* group : c_.groups) post_waiting(static_cast<FarGroup&>(*group));
}

// Shared blocks come to this machine once; who is not the one they come to copies them.
SessionCopies FarOperations::when_to_copy(const FarOperation& op, const FarGroup& group) const {
    const CollectiveRules& rules = rules_of(op.arguments.collective);
    const uint64_t blocks = rules.taken == Blocks::kOne ? 1 : group.size;
    if (!may_copy_ || !rules.is_shared || group.ranks_per_node < 2 || op.regions[kReceived] == 0 ||
        op.regions[kReceived] == kNoRegion || op.plan.recv_bytes / blocks < kBlockBytesMin)
        return SessionCopies::kNever;
    return op.in_call ? SessionCopies::kInCall : SessionCopies::kAttended;
}

void FarOperations::post(FarOperation& op, FarGroup& group) {
    op.state = ls_operation::State::kPosted;
    ++posts_, ++group.posts;
    SessionPost post;
    place_sent(op, &post);
    place_received(op, &post);
    post.copies = op.copies = when_to_copy(op, group);
    attended_ += op.copies == SessionCopies::kAttended;
    op.looks = 0;
    post.operation = op.far_id;
    post.group = group.far_id;
    post.collective = static_cast<uint8_t>(op.arguments.collective);
    post.algorithm = static_cast<uint8_t>(op.arguments.algorithm);
    post.self_in_place = op.arguments.self_in_place;
    post.root = op.arguments.root.value;
    post.send_block_bytes = op.arguments.send_block_bytes;
    post.recv_block_bytes = op.arguments.recv_block_bytes;
    post.send_bytes = op.plan.send_bytes;
    post.recv_bytes = op.plan.recv_bytes;
    post.send_blocks = op.plan.send_blocks;
    post.recv_blocks = op.plan.recv_blocks;
    connection_.stream().send(SessionKind::kPost, post);
}

bool FarOperations::take(const SessionDone& done) {
    if (done.operation >= operations_.size() || done.result > 0) return false;
    FarOperation& op = *operations_[done.operation];
    if (op.state != ls_operation::State::kPosted) return false;
    bytes_moved_[static_cast<uint8_t>(op.arguments.collective)] = done.bytes_moved;
    bytes_by_agent_[static_cast<uint8_t>(op.arguments.collective)] = done.bytes_by_agent;
    blocks_by_rank_ = done.blocks_by_rank;
    blocks_by_agent_ = done.blocks_by_agent;
    finish(op, withdrawn_ ? LS_ERR_SERVICE : done.result);
    return true;
}

// Where an operation ends before it is complete others may be about to copy from its buffers, or the agent
// into them, and service processes may read or write there by way of the agent. All of this rank's memory is
// its own again, so that nothing else of it can be complete, either.
void FarOperations::withdraw() {
    withdrawn_ = true;
    neighbours_.withdraw();
    regions_.close_unused();
    agent_.withdraw();
}

void FarOperations::fail() {
    withdraw();
    handed_.lose();
    for (ls_group* group : c_.groups) group->waiting.clear();
    c_.waiting_count = 0;
    for (const auto& op : operations_) {
        if (!is_open(*op)) continue;
        connection_.say_lost();
        finish(*op, LS_ERR_SERVICE);
    }
}

// --- copies

// A wait begins with some looks, too.
void FarOperations::note_look(FarOperation& op) {
    constexpr uint32_t kLooksOfAWait = 16;
    if (op.copies == SessionCopies::kAttended && ++op.looks == kLooksOfAWait)
        connection_.stream().send(SessionKind::kTested, SessionDone{op.far_id, 0, 0});
}

void FarOperations::attend() {
    if (attended_ != 0 && handed_.attend())
        connection_.stream().send(SessionKind::kAttend, SessionAttend{handed_.serial(), true});
}

bool FarOperations::leave() {
    if (!handed_.leave()) return true;
    connection_.stream().send(SessionKind::kAttend, SessionAttend{handed_.serial(), false});
    return attended_ == 0;
}

bool FarOperations::take(const HandedCopy& copy) {
    if (copy.operation >= operations_.size()) return false;
    const FarOperation& op = *operations_[copy.operation];
    return op.state == ls_operation::State::kPosted && op.copies != SessionCopies::kNever &&
           copy.to <= op.plan.recv_bytes && copy.bytes <= op.plan.recv_bytes - copy.to &&
           neighbours_.has(copy.giver, copy.from, copy.bytes) &&
           handed_.take(copy, op.copies == SessionCopies::kInCall);
}

void FarOperations::answer(const HandedCopy& copy, bool ok) {
    connection_.stream().send(SessionKind::kCopied, SessionCopied{copy.number, ok});
}

bool FarOperations::copy_next() {
    HandedCopy copy;
    if (!handed_.next(&copy)) return false;
    const FarOperation& op = *operations_[copy.operation];
    const bool ok = neighbours_.copy(copy.giver, copy.from, op.received + copy.to, copy.bytes);
    if (ok && copy.giver != c_.rank)
        bytes_copied_[static_cast<uint8_t>(op.arguments.collective)] += copy.bytes;
    answer(copy, ok);
    return true;
}

void FarOperations::finish(FarOperation& op, int result) {
    if (result == LS_ERR_SERVICE) withdraw();
    // Perhaps the agent was lost to its stand-in alone.
    if (result != LS_OK && op.copies == SessionCopies::kAttended) agent_.stop_copies();
    for (HandedCopy copy; handed_.drop(op.far_id, &copy);) answer(copy, false);
    attended_ -= op.copies == SessionCopies::kAttended;
    op.copies = SessionCopies::kNever;
    op.received = nullptr;
    if (op.state == ls_operation::State::kPosted) --posts_, --static_cast<FarGroup*>(op.group)->posts;
    op.state = ls_operation::State::kComplete;
    op.result = result;
    if (result == LS_OK && op.bounces[kReceived] != nullptr) copy_back(op);
    for (const int side : {kSent, kReceived}) {
        // Of a lost stand-in nobody knows what is still written where: that memory is not used again.
        const int place = std::exchange(op.places[side], -1);
        std::byte* const bounce = std::exchange(op.bounces[side], nullptr);
        if (bounce == nullptr || !connection_.is_lost()) regions_.leave(place);
        if (bounce != nullptr && !connection_.is_lost()) c_.options.shared.release(bounce);
        const uint32_t region = std::exchange(op.regions[side], 0);
        if (region != 0 && region != kNoRegion) regions_.unpin(region);
    }
}

bool FarOperations::idle() const {
    return std::none_of(operations_.begin(), operations_.end(), [](const auto& op) { return is_open(*op); });
}

void FarOperations::free(FarOperation* op) {
    if (op->state != ls_operation::State::kComplete) return;
    op->state = ls_operation::State::kFree;
    free_.push_back(op);
}

// The stand-in knows more, and says it in a line of its own.
void FarOperations::describe(const FarOperation& op, char* line, size_t bytes) const {
    const bool waits = op.state == ls_operation::State::kWaiting;
    if (!waits) connection_.stream().send(SessionKind::kDescribe, SessionDone{op.far_id, 0, 0});
    snprintf(line, bytes, "rank %u: %s %llu %s the DPU at %s", c_.rank,
             rules_of(op.arguments.collective).name, static_cast<unsigned long long>(op.arguments.sequence),
             waits ? "waits for older calls, of which there are as many as can be on" : "is not complete on",
             c_.options.dpu);
}

}  // namespace longshore
