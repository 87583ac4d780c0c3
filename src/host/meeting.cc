#include "host/meeting.h"

#include <string.h>

#include <algorithm>
#include <utility>

namespace longshore {
namespace {

// Puts a piece of what is `whole` where it belongs. What lies beyond its end is filling.
void put_piece(std::span<std::byte> whole, uint64_t offset, std::span<const std::byte> piece) {
    if (offset >= whole.size()) return;
    memcpy(whole.data() + offset, piece.data(), std::min<uint64_t>(piece.size(), whole.size() - offset));
}

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
    std::vector<std::byte> bytes(sizeof value);
    memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

}  // namespace

Meeting::Meeting(const Options& options)
    : options_(options),
      pieces_(options.exchange, options.job.nodes),
      ranks_(options.job.nodes),
      first_ranks_(options.job.nodes),
      words_(options.job.nodes) {
    for (uint32_t rank = 0; rank < options_.places.size(); ++rank) {
        const Place& at = options_.places[rank];
        ++ranks_[at.node];
        if (at.local == 0) first_ranks_[at.node] = rank;
    }
}

int Meeting::start_words(const NodeWord& mine) {
    return pieces_.start(
        bytes_of(mine), [this](uint32_t rank, uint64_t offset, std::span<const std::byte> bytes) {
            const Place& at = options_.places[rank];
            if (at.local == 0)
                put_piece(std::as_writable_bytes(std::span(&words_[at.node], 1)), offset, bytes);
        });
}

std::optional<uint32_t> Meeting::failed_node() const {
    for (uint32_t node = 0; node < words_.size(); ++node)
        if (words_[node].ok == 0) return first_ranks_[node];
    return std::nullopt;
}

bool Meeting::has_all_words() const {
    return std::all_of(words_.begin(), words_.end(), [](const NodeWord& word) {
        return word.entry_bytes != 0 && word.entry_bytes <= kEntryBytesMax;
    });
}

std::optional<uint32_t> Meeting::without_alias() const {
    for (uint32_t node = 0; node < words_.size(); ++node)
        if (words_[node].aliases == 0) return first_ranks_[node];
    return std::nullopt;
}

uint64_t Meeting::slice_bytes(uint32_t node) const {
    return (words_[node].entry_bytes + ranks_[node] - 1) / ranks_[node];
}

// All ranks give as much as those whose node has the longest entry for its ranks.
int Meeting::start_entries(std::span<const std::byte> entry) {
    const Place& here = place();
    uint64_t longest = 1;
    for (uint32_t node = 0; node < ranks_.size(); ++node) longest = std::max(longest, slice_bytes(node));
    const uint64_t begin = std::min<uint64_t>(here.local * slice_bytes(here.node), entry.size());
    const uint64_t end = std::min<uint64_t>(begin + slice_bytes(here.node), entry.size());
    std::vector<std::byte> mine(longest);
    std::copy(entry.begin() + static_cast<ptrdiff_t>(begin), entry.begin() + static_cast<ptrdiff_t>(end),
              mine.begin());
    if (here.local == 0) {
        for (const NodeWord& word : words_) entries_.emplace_back(word.entry_bytes);
    }
    return pieces_.start(std::move(mine),
                         [this](uint32_t rank, uint64_t offset, std::span<const std::byte> bytes) {
                             if (!entries_.empty()) take_slice(rank, offset, bytes);
                         });
}

void Meeting::take_slice(uint32_t rank, uint64_t offset, std::span<const std::byte> bytes) {
    const Place& at = options_.places[rank];
    const std::span<std::byte> entry = entries_[at.node];
    const uint64_t slice = slice_bytes(at.node), begin = std::min<uint64_t>(at.local * slice, entry.size());
    put_piece(entry.subspan(begin, std::min<uint64_t>(slice, entry.size() - begin)), offset, bytes);
}

bool Meeting::make_book(AddressBook* book) {
    *book = AddressBook(options_.job);
    for (std::vector<std::byte>& entry : std::exchange(entries_, {})) {
        if (!book->add(entry)) return false;
        entry = {};
    }
    return book->is_whole();
}

int Meeting::start_outcomes(Outcome mine) {
    failed_ = failed_in_turn_ = std::nullopt;
    return pieces_.start({static_cast<std::byte>(mine)},
                         [this](uint32_t rank, uint64_t, std::span<const std::byte> bytes) {
                             const auto outcome = static_cast<Outcome>(bytes.front());
                             if (outcome == Outcome::kOk) return;
                             auto& first = outcome == Outcome::kFailedInTurn ? failed_in_turn_ : failed_;
                             if (!first) first = rank;
                         });
}

std::optional<uint32_t> Meeting::failed_rank() const {
    return failed_ ? failed_ : failed_in_turn_;
}

int Meeting::start_reason(uint32_t from, const std::string& text) {
    reason_of_ = from;
    std::vector<std::byte> mine(sizeof reason_);
    memcpy(mine.data(), text.data(), std::min(text.size(), mine.size()));
    return pieces_.start(std::move(mine),
                         [this](uint32_t rank, uint64_t offset, std::span<const std::byte> bytes) {
                             if (rank == reason_of_)
                                 put_piece(std::as_writable_bytes(std::span(reason_)), offset, bytes);
                         });
}

// Of a rank that may not have ended it.
std::string Meeting::reason() const {
    return {reason_, strnlen(reason_, sizeof reason_ - 1)};
}

uint64_t Meeting::kept_bytes() const {
    uint64_t bytes = words_.size() * (sizeof(NodeWord) + sizeof ranks_[0] + sizeof first_ranks_[0]);
    for (const auto& entry : entries_) bytes += sizeof entry + entry.size();
    return bytes;
}

}  // namespace longshore
