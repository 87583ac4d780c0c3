// What a carrier and a task process on another node say to each other, over one TCP stream: frames of a
// header, a body and, of some, the bytes of buffers. Every field is little-endian and has its place, and
// everything is checked by its receiver. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tasks/control.h"

namespace longshore::tasks {

constexpr uint32_t kFrameMagic = 0x5454534c;  // "LSTT"
constexpr uint16_t kFrameVersion = 1;         // changes with any of what follows

enum class FrameKind : uint16_t {
    // of the carrier
    kOpen = 1,  // first: which plug-in, and what its process needs; answer kLoaded
    kServe,     // a rank opens the pool: ClientFrame; answer kServing
    kLeave,     // ... and closes it; answer kLeft
    kTask,      // with the bytes of its IN and INOUT buffers; answer kResult, in order
    // of the task process
    kLoaded = 64,
    kServing,
    kLeft,
    kBegun,   // ClientFrame: from now on the first task that is not over counts as run
    kResult,  // with the bytes of its OUT and INOUT buffers, if it was well
};

struct FrameHeader {
    FrameKind kind = FrameKind::kOpen;
    uint32_t body_bytes = 0;
    uint64_t payload_bytes = 0;  // behind the body: of buffers
};
constexpr size_t kFrameHeaderBytes = 20;
constexpr uint32_t kFrameBodyBytesMax = 64 * 1024;
using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

void encode_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out);
// False: it is none of this version, or nobody says such a one.
bool decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes, FrameHeader* out);

struct OpenFrame {
    std::string plugin, directory, cores;
    std::vector<std::string> environment;
    // Of the plug-in's file on the carrier's node, to tell whether it is the same; 0: there is none.
    uint64_t plugin_bytes = 0, plugin_hash = 0;
    uint32_t threads = 1, processes = 1, index = 0;  // of the pool's processes, and which of them this is
};
struct LoadedFrame {
    int32_t error = 0;  // as of longshore_open_pool
    std::string text;
    PluginTable table;
};
struct ClientFrame {
    uint64_t client = 0;
};
struct ServingFrame {
    uint64_t client = 0;
    int32_t error = 0;
    std::string text;
};
struct TaskFrame {
    uint64_t client = 0;
    Submission submission;  // of buffers only what the function is to see: bytes, access, place in a kept one
};
struct ResultFrame {
    uint64_t client = 0;
    int32_t result = 0;
    std::string text;
};

std::vector<std::byte> encode(const OpenFrame& frame);
std::vector<std::byte> encode(const LoadedFrame& frame);
std::vector<std::byte> encode(const ClientFrame& frame);
std::vector<std::byte> encode(const ServingFrame& frame);
std::vector<std::byte> encode(const TaskFrame& frame);
std::vector<std::byte> encode(const ResultFrame& frame);
// False: it is not one, or not whole.
bool decode(std::span<const std::byte> body, OpenFrame* out);
bool decode(std::span<const std::byte> body, LoadedFrame* out);
bool decode(std::span<const std::byte> body, ClientFrame* out);
bool decode(std::span<const std::byte> body, ServingFrame* out);
bool decode(std::span<const std::byte> body, TaskFrame* out);
bool decode(std::span<const std::byte> body, ResultFrame* out);

// A whole frame but for its payload.
template <class Frame>
std::vector<std::byte> make_frame(FrameKind kind, const Frame& frame, uint64_t payload_bytes = 0) {
    const std::vector<std::byte> body = encode(frame);
    std::vector<std::byte> all(kFrameHeaderBytes);
    encode_header({kind, static_cast<uint32_t>(body.size()), payload_bytes},
                  std::span<std::byte, kFrameHeaderBytes>(all.data(), kFrameHeaderBytes));
    all.insert(all.end(), body.begin(), body.end());
    return all;
}

// Whether the bytes of a buffer go along with a task, and come back with its result. Those that do, of a
// submission that decode() has taken, are together no more than kSharedFileBytesMax.
inline bool goes(const BufferPlace& buffer) {
    return (buffer.access & LONGSHORE_IN) != 0;
}
inline bool comes(const BufferPlace& buffer) {
    return (buffer.access & LONGSHORE_OUT) != 0;
}
uint64_t bytes_that_go(const Submission& submission);
uint64_t bytes_that_come(const Submission& submission);

}  // namespace longshore::tasks
