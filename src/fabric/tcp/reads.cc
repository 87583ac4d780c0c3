#include "fabric/tcp/reads.h"

namespace longshore {

std::span<std::byte> TcpReads::place(uint32_t at, uint64_t skip, uint64_t bytes) {
    const PendingRead& read = reads_[at];
    if (read.result != MoveResult::kMoved) return {};
    return copier_.find_mapped({read.to.rank, read.to.region, read.to.offset + skip}, bytes, true);
}

void TcpReads::write(uint32_t at, uint64_t skip, std::span<const std::byte> bytes) {
    PendingRead& read = reads_[at];
    if (read.result == MoveResult::kMoved)
        read.result = copier_.write(bytes, {read.to.rank, read.to.region, read.to.offset + skip});
}

bool TcpReads::end_if_over(uint32_t at) {
    if (reads_[at].received != reads_[at].bytes) return false;
    end(at, reads_[at].result);
    return true;
}

void TcpReads::end(uint32_t at, MoveResult result) {
    PendingRead& read = reads_[at];
    const uint64_t id = read.id;
    reads_.remove(read);
    done_.push_back(FabricEvent::moved(id, result));
}

}  // namespace longshore
