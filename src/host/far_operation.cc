// Operations of a rank that a DPU carries: planned here, with the buffers where the network can reach them.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "fabric/dpu/host_region.h"
#include "host/far.h"

namespace longshore {
namespace {

// What is opened at once: few regions, and not much memory that nobody asked for.
constexpr uint64_t kRegionUnit = uint64_t{16} << 20;
constexpr size_t kRegionsKept = 64;  // more only while all of them are in use
// A region that is never opened: where there should be memory and is none, so that all who want it learn of
// it.
constexpr uint32_t kNoRegion = kFarRegionsMax;
enum Side { kSent, kReceived };

}  // namespace

// --- regions

bool Far::is_shared(const void* base, uint64_t bytes) const {
    const auto begin = reinterpret_cast<uint64_t>(c_.options.shared.base);
    const auto address = reinterpret_cast<uint64_t>(base);
    return address >= begin && address - begin <= c_.options.shared.bytes &&
           bytes <= c_.options.shared.bytes - (address - begin);
}

// A place for one more; 0: there is none.
uint32_t Far::make_room() {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < regions_.size(); ++i) {
        if (regions_[i].pins == 0 && (oldest == 0 || regions_[i].last_use < regions_[oldest].last_use))
            oldest = i;
    }
    if (regions_.size() <= kRegionsKept || (oldest == 0 && regions_.size() < kFarRegionsMax)) {
        regions_.emplace_back();
        return static_cast<uint32_t>(regions_.size() - 1);
    }
    if (oldest != 0) agent_.close(regions_[oldest].opened);
    return oldest;
}

bool Far::pin(const void* base, uint64_t bytes, uint32_t* region, uint64_t* offset) {
    const auto address = reinterpret_cast<uint64_t>(base);
    const auto heap = reinterpret_cast<uint64_t>(c_.options.shared.base);
    for (uint32_t i = 1; i < regions_.size(); ++i) {
        FarRegion& known = regions_[i];
        if (!known.used || address < known.begin || address + bytes > known.end) continue;
        ++known.pins;
        known.last_use = ++clock_;
        *region = i;
        *offset = address - known.begin;
        return true;
    }
    const uint32_t place = make_room();
    if (place == 0) return false;
    const uint64_t begin = (address - heap) / kRegionUnit * kRegionUnit;
    const uint64_t end = std::min<uint64_t>(
        c_.options.shared.bytes, (address - heap + bytes + kRegionUnit - 1) / kRegionUnit * kRegionUnit);
    OpenedMemory opened;
    std::string error;
    regions_[place] = {};
    if (!agent_.open(begin, end - begin, c_.aliases, &opened, &error)) {
        log_line(c_, 0, ("a buffer cannot be opened to the network: " + error).c_str());
        return false;
    }
    regions_[place] = {heap + begin, heap + end, ++clock_, 1, opened.id, true};
    stream_.send(SessionKind::kOpened,
                 SessionOpened{place, opened.address, opened.bytes, opened.key, opened.exported});
    *region = place;
    *offset = address - heap - begin;
    return true;
}

void Far::unpin(uint32_t region) {
    if (region != 0 && region != kNoRegion) --regions_[region].pins;
}

// --- buffers

void Far::place(FarOperation& op, int side, const void* base, uint64_t bytes, SessionPost* post) {
    const ls_shared_memory& shared = c_.options.shared;
    uint32_t region = kNoRegion;
    uint64_t offset = 0;
    if (base == nullptr) {
        op.bounces[side] = static_cast<std::byte*>(shared.allocate(bytes));
        base = op.bounces[side];
    }
    if (base != nullptr && !pin(base, bytes, &region, &offset)) region = kNoRegion;
    op.regions[side] = region;
    (side == kSent ? post->send_region : post->recv_region) = region;
    (side == kSent ? post->send_offset : post->recv_offset) = offset;
}

void Far::place_sent(FarOperation& op, SessionPost* post) {
    Plan& plan = op.plan;
    if (plan.send_bytes == 0) return;
    if (plan.copy_send) {
        post->data.resize(plan.send_bytes);
        copy_out(plan, post->data.data());
    } else if (!plan.snapshot && is_shared(plan.send, plan.send_bytes)) {
        place(op, kSent, plan.send, plan.send_bytes, post);
    } else {
        // Only the blocks: nobody knows what is between them.
        if (plan.copy_from.empty() && !plan.send_blocks.empty())
            plan.send_bytes = pack(&plan.send_blocks, &plan.copy_from);
        place(op, kSent, nullptr, plan.send_bytes, post);
        if (op.bounces[kSent] != nullptr) copy_out(plan, op.bounces[kSent]);
    }
}

void Far::place_received(FarOperation& op, SessionPost* post) {
    Plan& plan = op.plan;
    if (plan.recv_bytes == 0) return;
    if (is_shared(plan.recv, plan.recv_bytes)) return place(op, kReceived, plan.recv, plan.recv_bytes, post);
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

int Far::start_operation(ls_group& group, const ls_arguments& given, ls_operation** out) {
    if (lost_) {
        say_lost();
        return LS_ERR_SERVICE;
    }
    ls_arguments arguments = given;
    // There is no memory that the ranks of a host share with its DPU.
    if (arguments.algorithm == LS_STAGED_HIERARCHICAL) arguments.algorithm = LS_STAGED;
    if (free_.empty()) {
        operations_.push_back(std::make_unique<FarOperation>());
        operations_.back()->far_id = static_cast<uint32_t>(operations_.size() - 1);
        free_.push_back(operations_.back().get());
    }
    FarOperation& op = *free_.back();
    op.scatter.clear();
    const uint64_t eager_bytes = std::min<uint64_t>(c_.options.eager_bytes, kEagerBytesMax);
    const int rc = make_plan(arguments, group.rank, group.size, eager_bytes, &op.plan, &op.arguments);
    if (rc != LS_OK) return rc;
    free_.pop_back();
    op.group = &group;
    op.state = ls_operation::State::kPosted;
    op.result = LS_IN_PROGRESS;
    op.arguments.sequence = ++group.sequence;
    ++group.open;
    SessionPost post;
    place_sent(op, &post);
    place_received(op, &post);
    post.operation = op.far_id;
    post.group = static_cast<FarGroup&>(group).far_id;
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
    stream_.send(SessionKind::kPost, post);
    *out = &op;
    return LS_OK;
}

int Far::test_operation(ls_operation& operation) {
    if (operation.result == LS_IN_PROGRESS) turn();
    return operation.result;
}

void Far::finish(FarOperation& op, int result) {
    op.state = ls_operation::State::kComplete;
    op.result = result;
    if (result == LS_OK && op.bounces[kReceived] != nullptr) copy_back(op);
    for (const int side : {kSent, kReceived}) {
        // Of a lost stand-in nobody knows what is still written where: that memory is not used again.
        if (!lost_ && op.bounces[side] != nullptr) c_.options.shared.release(op.bounces[side]);
        op.bounces[side] = nullptr;
        unpin(std::exchange(op.regions[side], 0));
    }
}

void Far::free_operation(ls_operation* operation) {
    auto* op = static_cast<FarOperation*>(operation);
    ls_group* group = op->group;
    if (op->state == ls_operation::State::kComplete) {
        op->state = ls_operation::State::kFree;
        free_.push_back(op);
    }
    --group->open;
    if (group->dying) free_group(group);
}

// The stand-in knows more, and says it in a line of its own.
void Far::describe(const ls_operation& operation, char* line, size_t bytes) {
    const auto& op = static_cast<const FarOperation&>(operation);
    stream_.send(SessionKind::kDescribe, SessionDone{op.far_id, 0, 0});
    snprintf(line, bytes, "rank %u: %s %llu is not complete on the DPU at %s", c_.rank,
             rules_of(op.arguments.collective).name, static_cast<unsigned long long>(op.arguments.sequence),
             c_.options.dpu);
}

}  // namespace longshore
