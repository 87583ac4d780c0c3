#include "statistics/board.h"

#include <sys/random.h>

#include <new>

namespace longshore::statistics {
namespace {

constexpr uint32_t kBoardMagic = 0x4c534231;  // "LSB1"
constexpr uint64_t kPageBytes = 65536;        // the largest of a machine that Longshore runs on

constexpr uint64_t whole_pages(uint64_t bytes) {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
constexpr uint64_t kHeadBytes = whole_pages(sizeof(BoardHead));
constexpr uint64_t kSlotBytes = whole_pages(sizeof(BoardSlot));

}  // namespace

Board Board::create(uint32_t slot_count) {
    Board board;
    const uint64_t bytes = kHeadBytes + slot_count * kSlotBytes;
    board.file_ = make_memory_file("longshore-board", bytes);
    if (board.file_) board.memory_ = Mapping::shared(board.file_.get(), bytes);
    if (!board) return {};
    BoardHead& head = *new (board.memory_.data()) BoardHead{};
    head.magic = kBoardMagic;
    head.slot_count = slot_count;
    head.slot_bytes = kSlotBytes;
    if (getrandom(head.token.data(), head.token.size(), 0) != static_cast<ssize_t>(head.token.size()))
        return {};
    return board;
}

Board Board::open(Fd file) {
    Board board;
    uint64_t bytes = 0;
    if (!file || !is_memory_file(file.get(), 0, &bytes) || bytes < kHeadBytes) return {};
    board.file_ = std::move(file);
    board.memory_ = Mapping::shared(board.file_.get(), bytes);
    if (!board) return {};
    const BoardHead& head = board.head();
    if (head.magic != kBoardMagic || head.slot_bytes != kSlotBytes ||
        bytes != kHeadBytes + head.slot_count * kSlotBytes)
        return {};
    return board;
}

BoardSlot& Board::slot(uint32_t index) const {
    return *reinterpret_cast<BoardSlot*>(memory_.data() + kHeadBytes + index * kSlotBytes);
}

}  // namespace longshore::statistics
