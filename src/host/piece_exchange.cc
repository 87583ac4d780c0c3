#include "host/piece_exchange.h"

#include <algorithm>
#include <utility>

namespace longshore {

int PieceExchange::start(std::vector<std::byte> mine, Take take) {
    mine_ = std::move(mine);
    take_ = std::move(take);
    given_ = 0;
    piece_ = std::min<uint64_t>(piece_max_, mine_.size());
    in_ = std::vector<std::byte>(piece_ * exchange_.size);
    return start_round();
}

// The last piece is as long as the others: what is beyond the end are zeros.
int PieceExchange::start_round() {
    if (mine_.size() < given_ + piece_) mine_.resize(given_ + piece_);
    return exchange_.start(exchange_.user, mine_.data() + given_, in_.data(), piece_);
}

int PieceExchange::test() {
    const int rc = exchange_.test(exchange_.user);
    if (rc != LS_OK) return rc;
    for (uint32_t rank = 0; rank < exchange_.size; ++rank)
        take_(rank, given_, std::span(in_).subspan(rank * piece_, piece_));
    given_ += piece_;
    if (given_ >= mine_.size()) return LS_OK;
    return start_round() == LS_OK ? LS_IN_PROGRESS : static_cast<int>(LS_ERR_UNAVAILABLE);
}

}  // namespace longshore
