// RankActor as a judge: of each result byte by byte, of what is left at the end; and what it says of itself.
#include "simulator/pattern.h"
#include "simulator/rank_actor.h"
#include "simulator/text.h"

namespace longshore::sim {

// Errors have causes: memory that cannot be read, an agent that was lost with copies for this rank, or a node
// of the group that is gone, or lacks a service process, or a rank of it that gave up.
bool RankActor::may_fail(const Operation& op, OperationError error) const {
    if (world_.options.unreadable || world_.options.import_fails || lost_copies(op.index)) return true;
    if (error == OperationError::kTruncated || !world_.lost_member(op.group)) return false;
    world_.coverage.lost_operations = 1;
    return true;
}

// Whether a block of an operation that has failed is there all the same, and must be right.
bool RankActor::landed(const Use& u, uint32_t source) const {
    if (u.waits) return false;
    const ChunkRange chunks = incoming_chunks(memory_, memory_.record(place_.local, u.record), Rank{source});
    for (uint32_t i = 0; i < chunks.count; ++i)
        if (chunk_state(chunks.words[i].load()) != ChunkState::kLanded) return false;
    return true;
}

// A block that has come as it should.
void RankActor::cover(const Operation& op, uint32_t source) {
    const uint32_t giver = world_.program.groups[op.group].members[source];
    if (world_.program.places[giver].node == place_.node || op.sends_same()) return;
    if (op.sends_one()) world_.coverage.gathered = 1;
    if (op.receives_one()) world_.coverage.scattered = 1;
}

// The MPI result, byte by byte, with everything around it.
void RankActor::check(Use& u, OperationError error) {
    const Operation& op = *u.operation;
    const auto name = [&] {
        return name_of_rank(index_) + " operation " + std::to_string(op.index) + " collective " +
               std::to_string(static_cast<int>(op.collective)) + (op.in_place ? " in place" : "");
    };
    if (error != OperationError::kNone) {
        world_.coverage.errors = 1;
        if (!may_fail(op, error))
            return world_.fail("error", name() + ": error " + std::to_string(static_cast<int>(error)));
    }
    const uint64_t key = u.recv_key;
    uint64_t at = 0;
    const uint32_t first = op.turn(u.rank, true);
    std::vector<BlockSpan>& recv_blocks = world_.scratch_blocks;
    op.layout(u.rank, true, &recv_blocks);
    const auto untouched = [&](uint64_t from, uint64_t to) {
        return is_pattern(world_.memory.pool(u.recv.at - kRedZoneBytes + from), key, from, to - from);
    };
    for (uint32_t i = 0; i < op.size; ++i) {
        const uint32_t source = (first + i) % op.size;
        const BlockSpan& b = recv_blocks[source];
        if (b.bytes == 0) continue;
        if (!untouched(at, kRedZoneBytes + b.offset))
            return world_.fail("red zone",
                               name() + ": bytes before the block from " + std::to_string(source));
        at = kRedZoneBytes + b.offset + b.bytes;
        if (error != OperationError::kNone && !landed(u, source)) continue;
        const std::vector<uint32_t>& sent = world_.send_offsets[op.index][source];
        if (sent.empty())
            return world_.fail("bytes", name() + ": complete before " + std::to_string(source) + " came");
        const uint32_t offset = sent[sent.size() == 1 ? 0 : u.rank];
        if (!is_pattern(world_.memory.pool(u.recv.at + b.offset), op.send_key(source), offset, b.bytes))
            return world_.fail("bytes", name() + ": wrong bytes from " + std::to_string(source));
        cover(op, source);
    }
    if (!untouched(at, ((u.recv.bytes + 63) & ~uint64_t{63}) + 2 * kRedZoneBytes))
        return world_.fail("red zone", name() + ": bytes after the last block");
}

const RankActor::Use* RankActor::find(uint32_t operation) const {
    for (const Use& u : uses_)
        if (u.operation->index == operation) return &u;
    return nullptr;
}

bool RankActor::gave_by_arena(uint32_t operation) const {
    const Use* const u = find(operation);
    return u != nullptr && u->arena_bytes != 0;
}

uint64_t RankActor::written(uint32_t operation) const {
    const Use* const u = find(operation);
    return u != nullptr ? world_.memory.written(u->recv) : 0;
}

void RankActor::judge_end() {
    if (state_ == State::kGone) return;
    const std::string who = name_of_rank(index_);
    for (const Use& u : uses_) {
        if (!u.complete || (!u.retired && world_.options.lost_service == 0))
            return world_.fail("once", who + " has an operation that is not over");
        const auto same = [&](const Buffer& b, uint64_t key) {
            return is_pattern(world_.memory.pool(b.at - kRedZoneBytes), key, 0,
                              ((b.bytes + 63) & ~uint64_t{63}) + 2 * kRedZoneBytes);
        };
        if (!same(u.recv, u.recv_key))
            return world_.fail("after completion", who + ": receive buffer written");
        if (u.send.owner != 0 && !same(u.send, u.send_key))
            return world_.fail("after completion", who + ": send buffer written");
    }
    if (world_.options.lost_service != 0) return;  // what was given up is kept
    if (engine_->arena().used_bytes() != 0) world_.fail("leak", who + ": arena not empty");
    for (const auto& word : memory_.rank(place_.local).active)
        if (word.load() != 0) world_.fail("leak", who + ": active records");
}

std::string RankActor::describe() const {
    std::string t = name_of_rank(index_) + " (node " + std::to_string(place_.node.value) + " local " +
                    std::to_string(place_.local.value) + " service " + std::to_string(place_.service.value) +
                    ") state " + std::to_string(static_cast<int>(state_)) + " step " +
                    std::to_string(next_step_) + "/" + std::to_string(steps_.size()) + ":";
    for (const Use& u : uses_) {
        if (u.retired) continue;
        t += " [operation " + std::to_string(u.operation->index) + " group " +
             std::to_string(u.operation->group) + " sequence " + std::to_string(u.operation->sequence) +
             " collective " + std::to_string(static_cast<int>(u.operation->collective)) +
             (u.posted ? " posted" : " not posted") + (u.complete ? " complete" : "");
        if (u.posted && !u.complete) {
            const OperationRecord& record = memory_.record(place_.local, u.record);
            for (uint32_t s = 0; s < u.operation->size; ++s) {
                const ChunkRange chunks = incoming_chunks(memory_, record, Rank{s});
                for (uint32_t i = 0; i < chunks.count; ++i)
                    if (!chunk_settled(chunks.words[i].load())) {
                        t += " from " + std::to_string(s) + " chunk " + std::to_string(i) + " state " +
                             std::to_string(static_cast<int>(chunk_state(chunks.words[i].load()))) +
                             " worker " + std::to_string(chunk_worker(chunks.words[i].load()).index);
                        break;
                    }
            }
            if (record.acknowledged_offset != 0) {
                const uint32_t peers = memory_.group(GroupSlot{record.group_slot}).peer_count;
                t += " unacknowledged:";
                for (uint32_t i = 0; i < peers; ++i)
                    if (!chunk_settled(memory_.at<Atomic<ChunkWord>>(record.acknowledged_offset)[i].load()))
                        t += " " + std::to_string(i);
            }
        }
        t += "]";
    }
    return t;
}

}  // namespace longshore::sim
