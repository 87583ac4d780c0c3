#include "scale/workload.h"

namespace longshore::scale {
namespace {

// A v-form's blocks have one of so many sizes, from all of block_bytes down to about 3/4 of it.
constexpr uint32_t kSizes = 16, kStepsOfBlock = 64;

}  // namespace

Workload::Workload(const Shape& shape) : shape_(shape) {
    LONGSHORE_CHECK(shape.valid());
    const uint64_t each = std::min<uint64_t>(shape.service_limits().eager_bytes, shape.block_bytes);
    const uint64_t sent = rules().is_shared ? shape.block_bytes : shape.block_bytes * shape.size();
    is_small_ = shape.block_bytes <= each && sent <= kCopyBytesMax;
}

std::vector<Member> Workload::members() const {
    std::vector<Member> all(shape_.size());
    for (uint32_t i = 0; i < all.size(); ++i) {
        const auto local = static_cast<uint16_t>(local_of(i));
        all[i] = {NodeId{static_cast<uint16_t>(node_of(i))},
                  ServiceId{static_cast<uint16_t>(service_of(local))}, LocalRank{local}, local};
    }
    return all;
}

uint64_t Workload::bytes(uint32_t source, uint32_t destination) const {
    if (!varies()) return shape_.block_bytes;
    const uint32_t step = (source * 3 + (rules().is_shared ? 0 : destination * 5)) % kSizes;
    return shape_.block_bytes - step * (shape_.block_bytes / kStepsOfBlock);
}

// Blocks lie one behind the other: in each run of kSizes there is one of each size.
uint64_t Workload::send_offset(uint32_t source, uint32_t destination) const {
    if (rules().is_shared) return 0;
    if (!varies()) return destination * shape_.block_bytes;
    const uint64_t run =
        kSizes * shape_.block_bytes - kSizes * (kSizes - 1) / 2 * (shape_.block_bytes / kStepsOfBlock);
    uint64_t offset = destination / kSizes * run;
    for (uint32_t i = destination / kSizes * kSizes; i < destination; ++i) offset += bytes(source, i);
    return offset;
}

uint64_t Workload::recv_offset(uint32_t source, uint32_t destination) const {
    if (!varies()) return source * shape_.block_bytes;
    const uint64_t run =
        kSizes * shape_.block_bytes - kSizes * (kSizes - 1) / 2 * (shape_.block_bytes / kStepsOfBlock);
    uint64_t offset = source / kSizes * run;
    for (uint32_t i = source / kSizes * kSizes; i < source; ++i) offset += bytes(i, destination);
    return offset;
}

uint64_t Workload::send_bytes(uint32_t rank) const {
    return rules().is_shared ? bytes(rank, 0)
                             : send_offset(rank, shape_.size() - 1) + bytes(rank, shape_.size() - 1);
}

OperationArguments Workload::arguments(uint32_t rank, uint64_t sequence, uint32_t keep) {
    OperationArguments a;
    const LocalRank local{static_cast<uint16_t>(local_of(rank))};
    a.group = GroupSlot{0};
    a.rank = Rank{rank};
    a.sequence = sequence;
    a.collective = shape_.collective;
    if (is_rooted()) a.root = root(sequence);
    a.send = a.recv = {local, kBuffers, 0};
    // What is received lies behind what is sent.
    a.recv.offset = (send_bytes(rank) + 4095) & ~uint64_t{4095};
    a.send_block_bytes = rules().is_shared ? bytes(rank, 0) : shape_.block_bytes;
    a.recv_block_bytes = shape_.block_bytes;
    if (rules().givers == Who::kRoot && !gives(rank, sequence)) a.send_block_bytes = 0;
    if (!rules().by_vector) return a;
    if (send_.size() <= keep) send_.resize(keep + 1), recv_.resize(keep + 1);
    recv_[keep].resize(shape_.size());
    for (uint32_t i = 0; i < shape_.size(); ++i) recv_[keep][i] = {recv_offset(i, rank), bytes(i, rank)};
    a.recv_blocks = recv_[keep].data();
    if (rules().is_shared) return a;
    send_[keep].resize(shape_.size());
    for (uint32_t i = 0; i < shape_.size(); ++i) send_[keep][i] = {send_offset(rank, i), bytes(rank, i)};
    a.send_blocks = send_[keep].data();
    return a;
}

}  // namespace longshore::scale
