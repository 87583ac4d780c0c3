// What service processes of different nodes write into TCP streams: little-endian, explicit, versioned. A
// stream begins with a preface and a handshake of fixed messages (hello, challenge, proof, welcome), after
// which both ends know whom they talk to. A stream for talk then carries short messages, a stream for data
// headers with the bytes of blocks behind them. Decoding never reads past what it is given and trusts none of
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/mover.h"
#include "engine/service_engine.h"

namespace longshore {

constexpr uint32_t kTcpMagic = 0x5054534c;  // "LSTP"
constexpr uint16_t kTcpVersion = 4;

using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;  // an HMAC-SHA256

// Two service processes have one stream of each of the first two kinds; the third is of tasks
// (node_streams.h).
enum class StreamKind : uint8_t { kTalk = 1, kData, kTasks };

// First on every stream, and never encrypted: which service process of the node it is for. Read by whoever
// listens there (node_port.h); all that follows is the service process's.
constexpr size_t kPrefaceBytes = 8;
void encode_preface(ServiceId service, std::span<std::byte, kPrefaceBytes> out);
// False: not of this version.
bool decode_preface(std::span<const std::byte, kPrefaceBytes> bytes, ServiceId* service);

// Then, from the end that connects.
struct Hello {
    StreamKind kind = StreamKind::kTalk;
    ServiceAddress from, to;
    uint32_t incarnation = 0;  // of the sender
    uint64_t connection = 0;   // drawn for a stream of talk; its stream of data names it again
    Nonce nonce{};
};
constexpr size_t kHelloBytes = 48;

// The answer, from the end that accepts. `proof` covers the hello and the rest of the challenge.
struct Challenge {
    uint32_t incarnation = 0;  // of the sender
    Nonce nonce{};
    Proof proof{};
};
constexpr size_t kChallengeBytes = 60, kChallengeBytesProved = 28;

// The end that connects answers with its own proof (kProofBytes), and the other with the welcome: both may
// speak now.
constexpr size_t kProofBytes = sizeof(Proof);
constexpr size_t kWelcomeBytes = 4;

void encode_hello(const Hello& hello, std::span<std::byte, kHelloBytes> out);
void encode_challenge(const Challenge& challenge, std::span<std::byte, kChallengeBytes> out);
void encode_welcome(std::span<std::byte, kWelcomeBytes> out);
// False: not a message of that kind and version.
bool decode_hello(std::span<const std::byte, kHelloBytes> bytes, Hello* out);
bool decode_challenge(std::span<const std::byte, kChallengeBytes> bytes, Challenge* out);
bool is_welcome(std::span<const std::byte, kWelcomeBytes> bytes);

// Messages on a stream of talk: a header of kTalkHeaderBytes and a body.
enum class TalkKind : uint8_t {
    kFrame = 1,  // body: a frame of the engine, at most kFrameBytesMax bytes
    kRequest,    // send me so many bytes of that region, by the stream of data
    kAhead,      // a block goes ahead, by the stream of data; a frame behind this tells of it
    kUsed,       // of the blocks that you sent ahead, so much has been used or dropped here
    kHere,       // first, from the end that connected: your welcome has come. No body
    kFewer,      // by the stream of data come fewer bytes than you have asked for: a read has failed. No body
};
constexpr size_t kTalkHeaderBytes = 8;
constexpr size_t kTalkBytesMax = kTalkHeaderBytes + kFrameBytesMax;

struct Talk {
    TalkKind kind = TalkKind::kFrame;
    std::span<const std::byte> frame;  // kFrame; borrowed from what was decoded
    uint64_t id = 0;                   // kRequest, kAhead
    RegionName region;                 // kRequest
    BlockName block;                   // kAhead
    uint64_t offset = 0;               // kRequest: in the region
    uint64_t bytes = 0;                // kRequest, kAhead
    uint64_t used = 0;                 // kUsed: since the stream began, as ahead_cost() counts
};

// Appends the message to `out`, which has room for kTalkBytesMax bytes. Returns its length.
size_t encode_talk(const Talk& talk, std::span<std::byte> out);
// How many bytes the body behind this header has; SIZE_MAX: not a header.
size_t talk_body_bytes(std::span<const std::byte, kTalkHeaderBytes> header);
// A whole message. False: not one.
bool decode_talk(std::span<const std::byte> message, Talk* out);

// On a stream of data: such a header, and so many bytes behind it. Where those leave from a rank's memory,
// the rank may withdraw it meanwhile and write there: then the next header, of no bytes, says whether they
// hold.
struct DataHeader {
    bool ahead = false;                      // of a block that is sent ahead, else of a read
    bool is_open = false;                    // the next header says whether the bytes hold
    MoveResult result = MoveResult::kMoved;  // not kMoved: the bytes cannot be had, and none follow
    uint32_t bytes = 0;
    uint64_t id = 0;      // of the request, or of the block sent ahead
    uint64_t offset = 0;  // in what was asked for, or in the block
};
constexpr size_t kDataHeaderBytes = 24;
constexpr uint32_t kDataBytesMax = 256 * 1024;  // behind one header

void encode_data(const DataHeader& header, std::span<std::byte, kDataHeaderBytes> out);
bool decode_data(std::span<const std::byte, kDataHeaderBytes> bytes, DataHeader* out);

}  // namespace longshore
