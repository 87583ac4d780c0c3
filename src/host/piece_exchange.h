// An exchange in small equal pieces: every rank gives the same number of bytes, all get those of all, and no
// rank ever holds more of them than kBytesPerRank times the job's ranks and kBytesPerNode times its nodes.
// One at a time, over the exchange that the caller of the host library gives.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "host/host.h"

namespace longshore {

class PieceExchange {
  public:
    static constexpr uint64_t kBytesPerRank = 16, kBytesPerNode = 1024;
    // Of each rank in one round.
    static uint64_t piece_bytes_max(uint32_t ranks, uint32_t nodes) {
        return kBytesPerRank + kBytesPerNode * nodes / ranks;
    }
    // `bytes` of each rank's, which begin at `offset` of what it gives; they stay until take() returns.
    using Take = std::function<void(uint32_t rank, uint64_t offset, std::span<const std::byte> bytes)>;

    PieceExchange(const ls_exchange& exchange, uint32_t nodes)
        : exchange_(exchange), piece_max_(piece_bytes_max(exchange.size, nodes)) {}

    // `mine` is at least one byte, and as long on all ranks. LS_OK, or an error.
    int start(std::vector<std::byte> mine, Take take);
    // LS_OK when all is over, LS_IN_PROGRESS, or an error.
    int test();

    // Of the exchange that was started last: this rank holds received_bytes() at a time, `rounds()` times.
    uint64_t received_bytes() const { return in_.size(); }
    uint64_t rounds() const { return (mine_.size() + piece_ - 1) / piece_; }

  private:
    int start_round();

    ls_exchange exchange_;
    const uint64_t piece_max_;
    uint64_t piece_ = 1, given_ = 0;  // of each rank: in a round, in the rounds that are over
    std::vector<std::byte> mine_, in_;
    Take take_;
};

}  // namespace longshore
