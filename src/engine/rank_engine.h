// A rank's side of its operations: publish a record, work on it while waiting, find out that it is complete,
// retire it when nobody needs it any more. Pure: the caller moves the bytes, sleeps, and takes the time.
//
// One thread at a time. Memory: one block of bytes_needed(limits), given by the caller.
#pragma once

#include "engine/arena.h"
#include "engine/mover.h"

namespace longshore {

// One collective call of this rank. Buffers are registered regions; sizes are bytes. Where blocks have sizes
// and places of their own (CollectiveRules::by_vector) they are given as arrays of `size`; the one block of a
// buffer that holds no more is its first send_block_bytes or recv_block_bytes.
constexpr uint32_t kNoArrays = UINT32_MAX;
struct OperationArguments {
    GroupSlot group;
    Rank rank;              // of the caller in the group
    uint64_t sequence = 0;  // 1, 2, ... per group
    Collective collective = Collective::kAlltoall;
    Algorithm algorithm = Algorithm::kDirect;
    Rank root;
    bool self_in_place = false;   // its own block, if it gives itself one, is where it belongs already
    bool copies_itself = false;   // kStagedHierarchical: this rank takes part in moving blocks when it waits
    bool send_is_stable = false;  // the send region is the arena: completion need not wait for readers
    bool hands_over = false;      // of a stand-in: its rank copies shared blocks of ranks of the node
    MemoryRef send, recv;
    uint64_t send_block_bytes = 0, recv_block_bytes = 0;  // uniform
    const BlockSpan* send_blocks = nullptr;
    const BlockSpan* recv_blocks = nullptr;
    // Of an earlier operation with the same blocks, from the same rank of a group of the same size
    // (keep_arrays).
    uint32_t arrays = kNoArrays;
};

enum class PostResult : uint8_t {
    kPosted,
    kLater,  // the group's ring or the arena is full: try again when an older operation of the group has
             // retired
};

enum class Progress : uint8_t { kPending, kComplete };

class RankEngine {
  public:
    static size_t bytes_needed(const NodeLimits& limits);
    // `block`: bytes_needed(), 64-aligned, zeroed, outliving the engine. Its first operation has the
    // generation after `generation`.
    RankEngine(void* block, const NodeMemory& memory, LocalRank self, uint64_t generation = 0);

    // Publishes the operation. On kLater nothing has changed. wake: members that sleep and may want it, and,
    // with ring_services, the node's service processes (a nonblocking call; a blocking one needs none on its
    // node).
    PostResult post(const OperationArguments& arguments, bool ring_services, RecordId* record, WakeSet* wake);

    // Cooperative wait: claims one chunk of this operation, incoming first, then outgoing. False: nothing to
    // take now.
    bool claim(RecordId record, Copy* out);
    void finish(const Copy& copy, MoveResult result, WakeSet* wake) { mover_.finish(copy, result, wake); }
    // Claims one incoming chunk of an operation that hands over, for its rank to copy. False: none now.
    bool claim_for_rank(RecordId record, Copy* out);
    // Service processes copy what is left of such an operation, or its rank does again.
    void leave_to_services(RecordId record, bool leave, WakeSet* wake);
    // Whether all that it lacks is there to be copied.
    bool is_all_there(RecordId record);

    // kComplete: receives have landed, send blocks are free, nobody reads the receive buffer. Stays complete.
    Progress poll(RecordId record);
    OperationError error(RecordId record) const;
    // The operation's arrays of blocks stay, for further ones, until they are dropped. kNoArrays: it has
    // none.
    uint32_t keep_arrays(RecordId record);
    void drop_arrays(uint32_t arrays);
    // The caller has taken note of completion. The record retires now, or in a later reap() if its (stable)
    // send blocks are still being read.
    void release(RecordId record, WakeSet* wake);
    // Retires released records whose readers are done; returns how many are still held. Call it now and then.
    uint32_t reap(WakeSet* wake);
    uint32_t held_count() const { return held_count_; }
    // Whether any of those is an operation of this group.
    bool holds(GroupSlot group) const;

    // The caller ends it in an error because it waits in vain (giving_up.h): what has not begun to move
    // fails, so that ranks that hold it for this one, or copy it from here, wait no longer. It may be
    // complete then.
    void give_up(RecordId record, WakeSet* wake);

    // Around a wait in which the caller claims whatever its operations have to move: service processes that
    // share its core leave that to it. May be nested.
    void begin_wait() { set_waiting(memory_.rank(self_).waiting.load(std::memory_order_relaxed) + 1); }
    void end_wait() { set_waiting(memory_.rank(self_).waiting.load(std::memory_order_relaxed) - 1); }

    // Whether some chunk of this operation is claimed by a worker other than this rank (then sleeping is
    // right).
    bool others_hold_claims(RecordId record) const;
    // For "who is missing": the first group rank whose entry this operation waits for; false if none on this
    // node (it then waits for other nodes or workers).
    bool missing_rank(RecordId record, Rank* out) const;
    // The first group rank whose block has not arrived; false if all have.
    bool awaited_rank(RecordId record, Rank* out) const;

    Arena& arena() { return arena_; }
    const NodeMemory& memory() const { return memory_; }
    LocalRank self() const { return self_; }

  private:
    struct Watch;
    struct Arrays;
    struct Posting;
    bool has_place(const OperationArguments& a, const GroupEntry& group, uint32_t local_index) const;
    bool lay_out(const OperationArguments& a, const GroupEntry& group, Posting* out);
    void write_words(const OperationArguments& a, const Posting& p, uint64_t generation);
    void write_record(const OperationArguments& a, const Posting& p, uint64_t generation, OperationRecord& r);
    void write_peers(const OperationArguments& arguments, const Posting& posting,
                     const OperationRecord& record, uint64_t generation);
    void cut_blocks(const OperationArguments& a, uint32_t size, bool lands, Arrays* cut) const;
    bool make_arrays(const OperationArguments& a, uint32_t size, bool by_blocks, bool lands,
                     const Arrays& cut, uint32_t* out);
    void set_waiting(uint32_t count) { memory_.rank(self_).waiting.store(count, std::memory_order_relaxed); }
    void set_active(RecordId record, bool active);
    Watch& watch(RecordId record);
    const Watch& watch(RecordId record) const;
    bool sends_read(RecordId record);
    bool is_free(RecordId record);  // nobody needs the record, or its landing, any more
    bool close_landing(RecordId record);
    struct Rest {
        bool some_failed = false, some_claimed = false;
    };
    Rest fail_rest(RecordId record, uint32_t first, uint32_t count);
    void retire(RecordId id, WakeSet* wake);

    NodeMemory memory_;
    LocalRank self_;
    Mover mover_;
    // The caller's data cannot take the room for our arrays: an operation that could not be posted would wait
    // for older ones, which may wait for a peer that waits for this one.
    Arena arrays_, arena_, claims_;
    Watch* watches_ = nullptr;
    uint32_t* free_records_ = nullptr;
    uint32_t free_count_ = 0;
    Arrays* all_arrays_ = nullptr;
    uint32_t* free_arrays_ = nullptr;
    uint32_t free_arrays_count_ = 0;
    uint32_t* held_ = nullptr;  // released, not yet retired
    uint32_t held_count_ = 0;
    uint64_t generation_;
};

}  // namespace longshore
