// What the ranks of a job tell each other while they attach: of each node where its supervisor is, then its
// entry of the address book, then whether all have attached. A node's entry crosses to the others once: its
// ranks, who read it in the shared memory of their node, give a slice each. Only the first rank of a node
// keeps what the others give. All ranks call the same functions in the same order. One thread.
#pragma once

#include <optional>
#include <string>

#include "fabric/address_book.h"
#include "fabric/shm/control.h"
#include "host/piece_exchange.h"

namespace longshore {

// Where a rank of the job is.
struct Place {
    uint16_t node = 0, local = 0, service = 0;
};

// What the first rank of a node tells of it. Others tell nothing.
struct NodeWord {
    NameBytes name{};
    Token token{};
    uint16_t entry_bytes = 0;
    uint8_t ok = 0;
    uint8_t aliases = 0;  // service processes can have them of the memory of this node's ranks
};
static_assert(sizeof(NodeWord) == 32);  // two rounds at most

// How a rank's attaching ended. A rank for which another's failure is the cause says so, and is not asked
// why.
enum class Outcome : uint8_t { kFailed, kFailedInTurn, kOk };

class Meeting {
  public:
    struct Options {
        ls_exchange exchange{};
        JobShape job;
        std::span<const Place> places;  // by rank; borrowed
    };
    explicit Meeting(const Options& options);

    // Each start_*() begins an exchange, for which test() is called until it says that it is over. Both
    // return LS_OK, LS_IN_PROGRESS or an error.
    int test() { return pieces_.test(); }

    // --- Where each node's supervisor is.
    int start_words(const NodeWord& mine);
    // Then: the first rank that cannot go on, to be asked why; none: all can.
    std::optional<uint32_t> failed_node() const;
    // Whether every node has told how long its entry is.
    bool has_all_words() const;
    // The first rank of a node that can have no aliases; none: all can.
    std::optional<uint32_t> without_alias() const;
    const NodeWord& word() const { return words_[place().node]; }  // of this node
    // The same on all ranks of the job, and on none of another.
    SocketName name_of_job() const { return unpack_name(words_[0].name); }

    // --- The address book. `entry`: this node's, as long as its word says; or empty: then nobody gets a
    // book.
    int start_entries(std::span<const std::byte> entry);
    // Then: whether this rank, the first of its node, has the book. False: what others gave is none.
    bool make_book(AddressBook* book);

    // --- Whether all have attached.
    int start_outcomes(Outcome mine);
    // Then: the rank to be asked why not; none: all have.
    std::optional<uint32_t> failed_rank() const;

    // --- What went wrong on rank `from`; the text of others is not looked at.
    int start_reason(uint32_t from, const std::string& text);
    std::string reason() const;

    // What this rank receives at a time, and how often; of the exchange that was started last.
    const PieceExchange& pieces() const { return pieces_; }
    // What it keeps of others until it has the book.
    uint64_t kept_bytes() const;

  private:
    const Place& place() const { return options_.places[options_.exchange.rank]; }
    // Of the entry of that node each of its ranks gives so much.
    uint64_t slice_bytes(uint32_t node) const;
    void take_slice(uint32_t rank, uint64_t offset, std::span<const std::byte> bytes);

    const Options options_;
    PieceExchange pieces_;
    std::vector<uint32_t> ranks_;        // by node: how many it has
    std::vector<uint32_t> first_ranks_;  // by node
    std::vector<NodeWord> words_;        // by node
    std::vector<std::vector<std::byte>>
        entries_;  // by node, on the first rank of each, until it has the book
    std::optional<uint32_t> failed_, failed_in_turn_;
    uint32_t reason_of_ = 0;
    char reason_[kReasonBytes] = {};
};

}  // namespace longshore
