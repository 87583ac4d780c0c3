// What service processes of different nodes say to each other below the engine's frames: little-endian,
// explicit, versioned. A packet is a header and a payload. Decoding never reads past the header and never
// trusts it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/mover.h"
#include "engine/service_engine.h"
#include "fabric/shm/socket.h"

namespace longshore {

constexpr uint16_t kPacketMagic = 0x534c;  // "LS"
constexpr uint8_t kPacketVersion = 4;
constexpr size_t kPacketHeaderBytesMax = 128;

enum class PacketKind : uint8_t {
    kGreeting = 1,  // first of every connection; payload: by which address the sender is reached
    kAlive,         // I am here; say so, too, if `asks`
    kFrame,         // payload: a frame of the engine
    kTaken,         // of your frames `taken` have been looked at
    kReadRequest,   // send me so many bytes of that region
    kReadData,      // payload: a piece of them; or why there are none
    kReadHeld,      // all pieces of it that were open have been sent: whether they count
};

struct Packet {
    PacketKind kind = PacketKind::kAlive;
    ServiceAddress from, to;
    uint32_t incarnation = 0;                // of the sender
    Token token{};                           // of the receiver's node
    uint32_t taken = 0;                      // of the receiver's frames, counted from the greeting on
    bool asks = false;                       // kAlive
    uint32_t sequence = 0;                   // kFrame
    uint64_t id = 0;                         // kReadRequest, kReadData, kReadHeld
    RegionName region;                       // kReadRequest
    uint64_t offset = 0;                     // kReadRequest: in the region; kReadData: in what is read
    uint64_t bytes = 0;                      // kReadRequest
    MoveResult result = MoveResult::kMoved;  // kReadData, kReadHeld
    bool is_open = false;  // kReadData: it leaves from its rank's memory, and counts when kReadHeld says so
};

// By the way of data, which is not that of what is said.
constexpr bool is_data(PacketKind kind) {
    return kind == PacketKind::kReadData || kind == PacketKind::kReadHeld;
}

// The header's bytes in `out`.
std::span<const std::byte> encode_packet(const Packet& packet,
                                         std::span<std::byte, kPacketHeaderBytesMax> out);
// False: not one of ours, of another version, too short or too long.
bool decode_packet(std::span<const std::byte> header, Packet* out);

}  // namespace longshore
