// What a rank and its stand-in on a DPU say to each other, over one TCP connection. The two may be of
// different machines and architectures: every field is little-endian and has its place, and everything is
// checked by its receiver. A frame is a length, a kind and a body; the first of each side is kHello and
// kWelcome.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/hand_over.h"

namespace longshore {

constexpr uint32_t kSessionMagic = 0x5353534c;  // "LSSS"
constexpr uint16_t kSessionVersion = 8;         // changes with any of what follows
constexpr uint16_t kSessionPort = 7521;         // where longshored listens unless it is told otherwise
constexpr uint32_t kJobRanksMax = 1 << 20;      // of a job that stand-ins serve

enum class SessionKind : uint16_t {
    // of the rank
    kHello = 1,   // who it is
    kExchanged,   // what all members gave: the answer to kExchange
    kOpened,      // a region of its memory that the network can reach
    kGroupStart,  // and kGroupFree: as host/host.h has them
    kGroupFree,
    kPost,      // an operation, which begins at once
    kDescribe,  // what does it wait for? The answer is a line for the user
    kAskStats,
    kAttend,  // the rank waits, or does no longer (SessionAttend)
    kCopied,  // the answer to kCopy
    kTested,  // the rank looks at an operation again and again, and does not wait (SessionDone)
    // of a carrier of tasks, in place of kHello; after kWelcome frames of tasks follow (tasks/frames.h)
    kTasks,
    // of the agent of a rank's host, in place of kHello: it copies for that rank, by kCopy and kCopied
    kCopier,
    // of the stand-in
    kWelcome = 64,  // or why not
    kExchange,      // give this to all members of the job or group, and get theirs
    kReady,         // the job or a group is there, or cannot be
    kFinished,      // an operation is complete
    kLine,          // for the user
    kStats,
    kCopy,  // copy this from another rank of the machine
    kLeft,  // the answer to the rank's word that it waits no longer
};

// A rank's first words.
struct SessionHello {
    uint64_t job = 0;                 // the same on all ranks of a job, and of no other
    std::array<uint8_t, 16> token{};  // by which the job's ranks are known
    uint64_t host = 0;                // the same for the ranks of a machine
    uint32_t rank = 0, size = 0;      // in the job
    uint32_t service_count = 0, service_reads_max = 0, service_spin_us = 0, service_restarts_max = 0,
             limit_s = 0;
    uint64_t eager_bytes = 0, chunk_bytes = 0, staging_bytes = 0;
    std::string cores;        // of the DPU: "auto", "none" or a list
    uint8_t memory_mode = 0;  // ls_memory_mode of host/host.h
    // Of the machine's first rank: by which the network reaches the agent there, memory of it that it has
    // exported (a descriptor, dpu/transport/host_region.h), or why there is none.
    std::vector<std::byte> agent, probe;
    std::string no_probe;
    bool copies = false;  // it can read the memory of all ranks of its machine
};
// A carrier's first words: whose tasks it has.
struct SessionTasks {
    uint64_t job = 0;
    std::array<uint8_t, 16> token{};
    uint32_t limit_s = 5;
};
// The agent's first words: for whom it copies.
struct SessionCopier {
    uint64_t job = 0;
    std::array<uint8_t, 16> token{};
    uint32_t rank = 0;  // of the job
};
struct SessionWelcome {
    bool ok = false;
    std::string reason;
};

// `id`: 0 is the job, else a group. Not `ok`: there are no bytes, the exchange has failed.
struct SessionExchange {
    uint64_t id = 0;
    bool ok = true;
    std::vector<std::byte> bytes;
};
struct SessionReady {
    uint64_t id = 0;
    bool ok = false;
    uint32_t node = 0, nodes = 0,
             ranks_per_node = 0;  // of the job: where this rank is, how many; of a group: its shape
    bool leader = false;          // of its node
    bool aliases = false;         // of the job: ranks' memory has them on DPUs
    bool spare_cores = false;     // of the job: the DPU has a core for each of its service processes
    std::string reason;
};

struct SessionOpened {
    uint32_t region = 0;
    uint64_t address = 0, bytes = 0;  // as the key has it
    uint32_t heap_unit = 0;           // where it begins in the rank's heap, in units of kHeapUnitBytes
    std::vector<std::byte> key;       // at most kHostKeyBytesMax (dpu/transport/host_region.h)
    std::vector<std::byte> exported;  // at most kExportedBytesMax
};

// What a rank has at its stand-in at most. It keeps what would be more, and hands it over when there is room;
// a stand-in that is told more than that is not told so by a rank.
constexpr uint32_t kFarRegionsMax = 4096;  // from 1 on; this one itself is never opened
constexpr uint32_t kFarGroupsMax = 4096;
// An operation is posted while fewer than kFarPostsMax of all groups are open there, or fewer than
// kFarPostsOfGroup of its own group: whatever other groups wait for, each goes on.
constexpr uint32_t kFarPostsMax = 4096, kFarPostsOfGroup = 16;

struct SessionGroup {
    uint64_t id = 0;
    uint32_t rank = 0, size = 0;
};

// Whether the rank copies shared blocks of ranks of its machine itself, and when (engine/hand_over.h): never,
// while it says that it waits, or at any time, because the call returns when the operation is over.
enum class SessionCopies : uint8_t { kNever, kAttended, kInCall };

// The engine's view of an operation (engine/rank_engine.h): regions and offsets, and small data themselves.
struct SessionPost {
    uint32_t operation = 0;
    uint64_t group = 0;
    uint8_t collective = 0, algorithm = 0;
    bool self_in_place = false;
    uint32_t root = 0;
    uint64_t send_block_bytes = 0, recv_block_bytes = 0;
    uint64_t send_bytes = 0, recv_bytes = 0;  // of all blocks, with the gaps between them
    uint32_t send_region = 0,
             recv_region = 0;  // 0: there is none; data go with the message, or there are none
    uint64_t send_offset = 0, recv_offset = 0;
    std::vector<BlockSpan> send_blocks, recv_blocks;
    std::vector<std::byte> data;  // what is sent, if it is small
    SessionCopies copies = SessionCopies::kNever;
};
struct SessionDone {
    uint32_t operation = 0;
    int32_t result = 0;  // LS_OK or LS_ERR_*
    // That came to this rank so far by operations of this collective: by service processes, and as the agent
    // of its host copied them.
    uint64_t bytes_moved = 0, bytes_by_agent = 0;
    // Blocks of other ranks that came to this one so far on its machine: copied by itself, and by the agent.
    uint64_t blocks_by_rank = 0, blocks_by_agent = 0;
};
// `serial` counts these words of the rank; with kLeft: which of them is answered.
struct SessionAttend {
    uint32_t serial = 0;
    bool on = false;
};
struct SessionCopied {
    uint32_t number = 0;  // of the copy
    bool ok = false;
};
struct SessionLine {
    uint8_t level = 0;
    std::string text;
};

// False: not one of these, of another version, or not whole.
bool decode(std::span<const std::byte> body, SessionHello* out);
bool decode(std::span<const std::byte> body, SessionTasks* out);
bool decode(std::span<const std::byte> body, SessionCopier* out);
bool decode(std::span<const std::byte> body, SessionWelcome* out);
bool decode(std::span<const std::byte> body, SessionExchange* out);
bool decode(std::span<const std::byte> body, SessionReady* out);
bool decode(std::span<const std::byte> body, SessionOpened* out);
bool decode(std::span<const std::byte> body, SessionGroup* out);
bool decode(std::span<const std::byte> body, SessionPost* out);
bool decode(std::span<const std::byte> body, SessionDone* out);
bool decode(std::span<const std::byte> body, SessionAttend* out);
bool decode(std::span<const std::byte> body, SessionCopied* out);
bool decode(std::span<const std::byte> body, HandedCopy* out);
bool decode(std::span<const std::byte> body, SessionLine* out);

std::vector<std::byte> encode(const SessionHello& message);
std::vector<std::byte> encode(const SessionTasks& message);
std::vector<std::byte> encode(const SessionCopier& message);
std::vector<std::byte> encode(const SessionWelcome& message);
std::vector<std::byte> encode(const SessionExchange& message);
std::vector<std::byte> encode(const SessionReady& message);
std::vector<std::byte> encode(const SessionOpened& message);
std::vector<std::byte> encode(const SessionGroup& message);
std::vector<std::byte> encode(const SessionPost& message);
std::vector<std::byte> encode(const SessionDone& message);
std::vector<std::byte> encode(const SessionAttend& message);
std::vector<std::byte> encode(const SessionCopied& message);
std::vector<std::byte> encode(const HandedCopy& message);
std::vector<std::byte> encode(const SessionLine& message);

}  // namespace longshore
