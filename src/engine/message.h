// Control messages between service processes. Little-endian, explicit, versioned. A frame is a header and
// entries, batched per peer. Decoding never reads past the frame and never trusts a length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "engine/claim.h"
#include "engine/node_memory.h"

namespace longshore {

constexpr size_t kFrameBytesMax = 4096;
constexpr uint8_t kWireVersion = 4;
constexpr uint8_t kCollectivesService = 1;  // the first service on the channel
constexpr uint32_t kEagerBytesMax = 1024;

struct FrameHeader {
    uint8_t version = kWireVersion;
    uint8_t service = kCollectivesService;
    uint16_t length = 0;  // of the whole frame
    ServiceAddress sender;
    uint32_t incarnation = 0;  // of the sender; messages of an older one are dropped
};
constexpr size_t kFrameHeaderBytes = 12;

// Where shared blocks go: to a node, not to a rank.
constexpr uint32_t kToNode = 0x80000000u;

enum class MessageKind : uint8_t {
    kHello = 1,
    kNotify,
    kHandOn,
    kAcknowledge,
    kRequest,
    kRegionRequest,
    kRegion,
    kWant,
    kOffer,
    kPass,
    kTaken
};
constexpr uint32_t kMessageKinds = static_cast<uint32_t>(MessageKind::kTaken);

// Not handed on but lent: whoever sends it keeps it, too, and what is not taken of it he reads himself.
constexpr uint8_t kLent = kServicesPerNodeMax + 1;

// One block may be read. kNotify and kHandOn.
struct Notification {
    OperationId operation;
    Rank source;
    uint32_t destination = 0;  // group rank, or kToNode | node
    ServiceAddress origin;     // who acknowledgements go to
    LocalRank owner;           // on the origin's node: whose region
    RegionId region;
    uint32_t region_generation = 0;
    uint64_t offset = 0, bytes = 0;
    bool along = false;  // kNotify: the block is sent along, not to be asked for (Action::Kind::kSendAlong)
    uint8_t hops = 0;    // kHandOn: service processes of the node that could not serve it, or kLent
    // For the counters only. It comes along because who hands a notification on or parks it may never see the
    // operation entered; the records, not this, say what the operation is.
    Collective collective = Collective::kAlltoall;
    std::span<const std::byte> eager;  // the block itself where it is small; borrowed from the frame

    BlockName block() const { return {operation, source, destination}; }
};

struct Acknowledgement {
    OperationId operation;
    Rank source;
    uint32_t destination = 0;
    bool failed = false;
};

// Asks for a notification (again): its destination has entered and has not got the block. kRequest.
struct Request {
    OperationId operation;
    Rank source;
    uint32_t destination = 0;
};

// kRegionRequest (descriptor empty) and kRegion.
struct RegionMessage {
    LocalRank owner;
    RegionId region;
    uint32_t generation = 0;
    std::span<const std::byte> descriptor;
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
    uint64_t ticket = 0;             // but for kTaken: the asker's incarnation << 32 and a number of its own
    uint32_t slot = kNoSlot;         // kOffer, kTaken
    uint32_t serial = 0;             // kOffer, kTaken: tells one use of the slot from another
    uint64_t offset = 0, bytes = 0;  // kOffer: of the chunk, in its block
};

struct Message {
    MessageKind kind = MessageKind::kHello;
    Notification notification;
    Acknowledgement acknowledgement;
    Request request;
    RegionMessage region;
    Relayed relayed;
};

// Writes entries behind a header into one frame.
class FrameWriter {
  public:
    FrameWriter() = default;
    void start(std::byte* buffer, size_t capacity, const FrameHeader& header);
    // False: no room left; nothing was written.
    bool add(const Message& message);
    bool empty() const { return used_ <= kFrameHeaderBytes; }
    size_t room() const { return capacity_ - used_; }
    // The finished frame, its length filled in.
    std::span<const std::byte> finish();

  private:
    std::byte* buffer_ = nullptr;
    size_t capacity_ = 0, used_ = 0;
};

class FrameReader {
  public:
    // False: not a frame of ours (too short, other version or service, wrong length).
    bool start(std::span<const std::byte> frame, FrameHeader* header);
    enum class Result : uint8_t { kMessage, kEnd, kMalformed };
    Result next(Message* out);

  private:
    std::span<const std::byte> rest_;
};

}  // namespace longshore
