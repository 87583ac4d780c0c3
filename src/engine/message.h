// Control messages of the collectives between service processes: what follows the header of such a frame
// (engine/frame.h), batched per peer. Decoding never reads past the frame and never trusts a length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "engine/claim.h"
#include "engine/frame.h"
#include "engine/node_memory.h"

namespace longshore {

constexpr size_t kFrameBytesMin = 1024 + 256;  // a small block and its row
constexpr uint32_t kEagerBytesMax = 1024;

// Where shared blocks go: to a node, not to a rank.
constexpr uint32_t kToNode = 0x80000000u;

enum class MessageKind : uint8_t {
    kHello = 1,
    kAgain,
    kTell,
    kHandOn,
    kSmallBlock,
    kLend,
    kAcknowledge,
    kWant,
    kOffer,
    kPass,
    kTaken
};
constexpr uint32_t kMessageKinds = static_cast<uint32_t>(MessageKind::kTaken);

// Where one rank's blocks lie that are for the ranks of one service process (or, shared, for its node): a row
// of the matrix of blocks between two service processes. Encoded in kTell and kHandOn.
struct Row {
    enum class Form : uint8_t {
        kUniform,  // for each rank d of the service process, `bytes` at offset + d * stride
        kOne,      // for `destination` alone, `bytes` at `offset`
        kSpans,    // for each rank of the service process, in the order of the group, a span
    };
    Rank source;
    uint16_t local_index = 0;  // of the source, among the members on its node: acknowledgements name it so
    RegionId region;           // of the source rank
    uint32_t generation = 0;   // of the region
    Form form = Form::kUniform;
    bool along = false;   // kTell: all of its blocks are sent along, not to be asked for (Action::kSendAlong)
    bool waited = false;  // kHandOn: it has been told of before a rank of the node had entered
    uint32_t destination = 0;  // kOne: group rank, or kToNode | node
    uint64_t offset = 0, stride = 0, bytes = 0;
    // kSpans: of so many, those from span_first on are here, in `spans`. A row that does not fit into a frame
    // comes in parts, one after the other.
    uint16_t span_count = 0, span_first = 0, spans_here = 0;
    std::span<const std::byte> spans;  // encoded, see SpanReader
};

// What one service process tells another of one operation: the rows of ranks that have entered. kTell between
// nodes; kHandOn from one service process of a node to another, of shared blocks that a rank of that one can
// read.
struct Told {
    OperationId operation;
    Collective collective = Collective::kAlltoall;
    ServiceAddress origin;  // who is to be acknowledged to
    uint16_t row_count = 0;
    std::span<const std::byte> rows;  // encoded, see RowReader; borrowed from the frame
};

// A block that is so small that it comes before its row. Who has no room for it reads it, as any other.
struct SmallBlock {
    OperationId operation;
    Rank source;
    uint32_t destination = 0;          // group rank, or kToNode | node
    std::span<const std::byte> bytes;  // borrowed from the frame
};

// One block of another node's rank, to be read. As a message (kLend): who sends it keeps it, too, and what is
// not read of it he reads himself.
struct RemoteBlock {
    OperationId operation;
    Rank source;
    uint32_t destination = 0;  // group rank, or kToNode | node
    ServiceAddress origin;     // who has told of it
    LocalRank owner;           // on the origin's node: whose region
    RegionId region;
    uint32_t region_generation = 0;
    uint64_t offset = 0, bytes = 0;
    bool along = false;  // not in a message

    BlockName name() const { return {operation, source, destination}; }
};

// Of the ranks of the receiver's node with local indices `first` + the numbers of the set bits, all that they
// give to the sender's ranks (shared blocks: to its node) has been read, or cannot be (failed).
struct Acknowledgement {
    OperationId operation;
    bool failed = false;
    uint16_t first = 0;
    uint64_t sources = 0;
};

// A broadcast from service process to service process. kWant: who asks its parent in the tree for chunks.
// kOffer: a chunk is in the parent's staging memory until it is taken, or (slot kNoSlot) never will be.
// kPass: there will be no (more) offers. kTaken: the slot is not needed any more.
struct Relayed {
    static constexpr uint32_t kNoSlot = UINT32_MAX;
    OperationId operation;           // kWant
    Rank source;                     // kWant
    ServiceAddress origin;           // kWant: who wants it, as a sibling may pass it on
    uint8_t hops = 0;                // kWant
    uint64_t ticket = 0;             // the asker's incarnation << 32 and a number of its own
    uint32_t slot = kNoSlot;         // kOffer, kTaken
    uint32_t serial = 0;             // kOffer, kTaken: tells one use of the slot from another
    uint64_t offset = 0, bytes = 0;  // kOffer: of the chunk, in its block
};

struct Message {
    MessageKind kind = MessageKind::kHello;
    Told told;
    SmallBlock small;
    RemoteBlock lent;
    Acknowledgement acknowledgement;
    Relayed relayed;
};

// Writes entries behind a header into one frame.
class FrameWriter {
  public:
    FrameWriter() = default;
    void start(std::byte* buffer, size_t capacity, const FrameHeader& header);
    // False: no room left; nothing was written. Not for kTell and kHandOn.
    bool add(const Message& message);
    // Adds a row to the message that tells of the same operation, if that is the last one, or begins one.
    // kSpans: `spans` are those from row.span_first on. Returns how many of them were written, of other forms
    // 1; 0: no room left, nothing was written.
    uint32_t add_row(MessageKind kind, const Told& told, const Row& row, std::span<const BlockSpan> spans);
    bool empty() const { return used_ <= kFrameHeaderBytes; }
    size_t room() const { return capacity_ - used_; }
    // The finished frame, its length filled in.
    std::span<const std::byte> finish();

  private:
    bool open_told(MessageKind kind, const Told& told);
    std::byte* buffer_ = nullptr;
    size_t capacity_ = 0, used_ = 0;
    size_t told_at_ = 0;  // where the last message begins, if it has rows
};

class FrameReader {
  public:
    // False: not a frame of the collectives (open_frame).
    bool start(std::span<const std::byte> frame, FrameHeader* header);
    enum class Result : uint8_t { kMessage, kEnd, kMalformed };
    Result next(Message* out);

  private:
    std::span<const std::byte> rest_;
};

// The rows of a message, and the spans of a row. False: there are no more, or they are not well formed.
class RowReader {
  public:
    explicit RowReader(const Told& told) : rest_(told.rows), left_(told.row_count) {}
    bool next(Row* out);
    bool malformed() const { return malformed_; }

  private:
    std::span<const std::byte> rest_;
    uint32_t left_;
    bool malformed_ = false;
};

class SpanReader {
  public:
    explicit SpanReader(const Row& row) : rest_(row.spans), left_(row.spans_here) {}
    bool next(BlockSpan* out);

  private:
    std::span<const std::byte> rest_;
    uint32_t left_;
    uint64_t end_ = 0;  // of the span before
};

}  // namespace longshore
