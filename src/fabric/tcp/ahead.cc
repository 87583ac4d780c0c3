#include "fabric/tcp/ahead.h"

#include <algorithm>
#include <utility>

namespace longshore {
namespace {
// Bytes sent ahead to one service process and not yet read there, at most: from all peers together, from
// one of them.
constexpr uint64_t kWindowOfAll = 16u << 20, kWindowMax = 4u << 20;
constexpr uint64_t kBlocksMax = 64;       // from one peer
constexpr uint64_t kCostMin = 16 * 1024;  // of one block
constexpr uint64_t kPartToTell = 8;
}  // namespace

AheadWindow::AheadWindow(uint64_t services)
    : bytes_(std::min(kWindowMax, kWindowOfAll / std::max<uint64_t>(1, services))) {}

uint64_t AheadWindow::cost(uint64_t bytes) const {
    return std::max({bytes, bytes_ / kBlocksMax, kCostMin});
}

ComingBlocks::Block* ComingBlocks::find(uint64_t id) {
    for (Block& block : blocks_)
        if (block.id == id) return &block;
    return nullptr;
}

bool ComingBlocks::announce(const Talk& talk, uint64_t now) {
    const uint64_t cost = window_.cost(talk.bytes);
    if (talk.bytes == 0 || cost > window_.bytes() - cost_ || talk.id != announced_ + 1) return false;
    announced_ = talk.id;
    cost_ += cost;
    Block& block = blocks_.emplace_back();
    block.id = talk.id;
    block.name = talk.block;
    block.bytes = talk.bytes;
    block.since_ns = now;
    return true;
}

bool ComingBlocks::may_come(const DataHeader& header) const {
    const Block* const block = find(header.id);
    return block == nullptr ||
           (header.offset == block->arrived && header.bytes <= block->bytes - block->arrived);
}

ComingBlocks::Part ComingBlocks::begin_part(uint64_t id, uint64_t bytes) {
    Part part;
    part.bytes = bytes;
    Block* const block = find(id);
    if (block == nullptr) return part;
    for (const uint32_t at : block->reads) {
        const PendingRead& read = (*reads_)[at];
        if (block->arrived < read.part_offset) {
            // What comes before that read's bytes has another place.
            part.bytes = std::min<uint64_t>(part.bytes, read.part_offset - block->arrived);
            continue;
        }
        const uint64_t skip = block->arrived - read.part_offset;
        if (skip >= read.bytes || skip != read.received) continue;
        const uint64_t of_read = std::min<uint64_t>(part.bytes, read.bytes - skip);
        const std::span<std::byte> to = reads_->place(at, skip, of_read);
        if (!to.empty()) return {to.data(), of_read, at};
    }
    if (!block->buffer) block->buffer = std::make_unique_for_overwrite<std::byte[]>(block->bytes);
    part.to = block->buffer.get() + block->arrived;
    return part;
}

void ComingBlocks::note_arrived(uint64_t id, Part* part) {
    Block* const block = find(id);
    if (block == nullptr) return;
    part->begin = block->arrived;
    block->arrived += part->bytes;
    if (part->read != TcpReads::kNone) {
        reads_->note_arrived(part->read, part->bytes);
    } else {
        block->open.push_back({part->begin, block->arrived});
    }
}

void ComingBlocks::end_part(uint64_t id, const Part& part) {
    Block* const block = find(id);
    if (block == nullptr) return;
    if (part.read != TcpReads::kNone) {
        block->used += part.bytes;
    } else {
        std::erase_if(block->open, [&](const Kept& open) { return open.begin == part.begin; });
        block->kept.push_back({part.begin, part.begin + part.bytes});
        for (const uint32_t at : block->reads) take_kept(*block, at);
    }
    std::erase_if(block->reads, [&](uint32_t at) { return reads_->end_if_over(at); });
    settle(*block);
}

// What is kept for that read goes to where it wants it.
void ComingBlocks::take_kept(Block& block, uint32_t at) {
    const PendingRead& read = (*reads_)[at];
    uint64_t taken = 0;
    std::vector<Kept> left;
    for (const Kept& kept : block.kept) {
        const uint64_t begin = std::max(kept.begin, read.part_offset);
        const uint64_t end = std::min(kept.end, read.part_offset + read.bytes);
        if (begin >= end) {
            left.push_back(kept);
            continue;
        }
        reads_->write(at, begin - read.part_offset, {block.buffer.get() + begin, end - begin});
        taken += end - begin;
        if (kept.begin < begin) left.push_back({kept.begin, begin});
        if (end < kept.end) left.push_back({end, kept.end});
    }
    block.kept = std::move(left);
    block.used += taken;
    reads_->note_arrived(at, taken);
}

// Whether a read waits for some of those bytes.
bool ComingBlocks::overlaps(const Block& block, uint64_t begin, uint64_t end) const {
    return std::any_of(block.reads.begin(), block.reads.end(), [&](uint32_t at) {
        const PendingRead& other = (*reads_)[at];
        return other.part_offset < end && begin < other.part_offset + other.bytes;
    });
}

bool ComingBlocks::take(uint32_t at, const AlongPart& part) {
    const uint64_t bytes = (*reads_)[at].bytes;
    for (Block& block : blocks_) {
        if (block.name != part.block || part.offset > block.bytes || bytes > block.bytes - part.offset)
            continue;
        // Bytes that are on their way into the buffer or into another read's memory count as not arrived.
        const uint64_t end = part.offset + bytes;
        uint64_t there = 0;
        for (const std::vector<Kept>* const all : {&block.kept, &block.open}) {
            for (const Kept& kept : *all) {
                const uint64_t from = std::max(kept.begin, part.offset), to = std::min(kept.end, end);
                there += from < to ? to - from : 0;
            }
        }
        const uint64_t arrived = std::min(end, std::max(block.arrived, part.offset)) - part.offset;
        if (there != arrived || overlaps(block, part.offset, end)) return false;
        reads_->set_part(at, part.offset);
        take_kept(block, at);
        if (!reads_->end_if_over(at)) block.reads.push_back(at);
        settle(block);
        return true;
    }
    return false;
}

std::vector<uint32_t> ComingBlocks::fail(uint64_t id) {
    Block* const block = find(id);
    if (block == nullptr) return {};
    std::vector<uint32_t> waiting = std::exchange(block->reads, {});
    drop(*block);
    return waiting;
}

// Forgets it when nothing is left to be read.
void ComingBlocks::settle(Block& block) {
    if (block.used == block.bytes) drop(block);
}

void ComingBlocks::drop(Block& block) {
    cost_ -= window_.cost(block.bytes);
    used_ += window_.cost(block.bytes);
    if (&block != &blocks_.back()) block = std::move(blocks_.back());
    blocks_.pop_back();
}

bool ComingBlocks::drop_old(uint64_t now, uint64_t age_max_ns) {
    const size_t before = blocks_.size();
    for (size_t i = blocks_.size(); i-- > 0;) {
        Block& block = blocks_[i];
        if (block.arrived == block.bytes && block.reads.empty() &&
            now - std::min(now, block.since_ns) > age_max_ns)
            drop(block);
    }
    return blocks_.size() != before;
}

void ComingBlocks::reset() {
    blocks_.clear();
    announced_ = cost_ = used_ = told_ = 0;
}

uint64_t ComingBlocks::used_to_tell(bool talks) {
    if (used_ == told_ || (!talks && used_ - told_ < window_.bytes() / kPartToTell)) return 0;
    return told_ = used_;
}

}  // namespace longshore
