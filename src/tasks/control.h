// What is said about tasks on the node's sockets: a rank opens a connection of its own to the supervisor for
// each pool (its end is the pool's end), and the supervisor has one to each task process. Both ends are the
// same build on the same machine, so structs travel as they are; their receiver checks them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fabric/node_streams.h"
#include "fabric/shm/control.h"
#include "tasks/queue.h"

namespace longshore::tasks {

constexpr size_t kPathBytes = 4096;
constexpr size_t kEnvironmentBytesMax = 16 * 1024;
constexpr uint32_t kFunctionsMax = 64;
constexpr size_t kNameBytes = 64;
constexpr uint32_t kProcessesMax = 256;        // of a pool
constexpr uint32_t kThreadsMax = 1024;         // of a process, that cores are dealt for
constexpr uint32_t kProcessesPerRankMax = 16;  // two descriptors of each go in one packet

enum class TaskMessage : uint32_t {
    kOpen = 0x7461'0001,  // rank: OpenPool; with its heap's file, if it has one, and its stderr
    kOpened,              // supervisor: PoolOpened; with the queues and the eventfds of the processes
    kClose,               // rank: the pool is to be closed; answer kClosed
    kClosed,
    kServe,    // supervisor to a task process: ServeRank; with the queue, and the heap's file if there is one
    kServing,  // the answer: RankServed
    kLeave,    // supervisor to a task process: LeaveRank; answer kLeft
    kLeft,
    kStart,  // supervisor to a task process, first: StartTasks, with stderr if there is one, and the eventfd.
             // A carrier is started alike; a task process for another node has its stream, then stderr
    kLoaded,  // the answer: PluginLoaded
};

struct TaskHeader {
    uint32_t magic = kControlMagic;
    TaskMessage kind{};
};

// Memory of a rank that its task processes map.
struct SharedHeap {
    uint64_t base = 0, bytes_max = 0;  // in the rank; 0: there is none
};

struct OpenPool {
    // The first words are those of every packet that the supervisor's listener gets.
    ControlHeader header{kControlMagic, ControlKind::kOpenPool};
    Token token{};
    uint32_t local_rank = 0;
    SharedHeap heap;
    uint32_t has_heap = 0, has_stderr = 0;
    uint32_t processes = 0;  // 0: one for each rank of the node
    char cores[1024] = {};   // as LONGSHORE_TASK_CORES has it
    char node[256] = {};     // as LONGSHORE_TASK_NODE has it
    uint32_t threads = 1;    // of a task process, to share out cores
    char plugin[kPathBytes] = {};
    char directory[kPathBytes] = {};
    uint32_t environment_bytes = 0;  // NAME=VALUE and a zero byte, one after the other
    char environment[kEnvironmentBytesMax] = {};
};

struct PluginTable {
    uint32_t functions_count = 0;
    char names[kFunctionsMax][kNameBytes] = {};
};

// `error`: 0, or what longshore_open_pool returns, for the reason in `text`.
struct PoolOpened {
    TaskHeader header{kControlMagic, TaskMessage::kOpened};
    int32_t error = 0;
    uint32_t processes = 0;  // of this rank: so many queues follow, then as many eventfds
    uint32_t may_spin = 0;   // they have cores that nobody else needs
    PluginTable table;
    char text[kTextBytes] = {};
};

// The node on which a pool's processes run, where it is another than that of its ranks.
struct FarNode {
    uint32_t is_far = 0, limit_s = 5;
    StreamEnd self, to;
    uint32_t address_bytes = 0;
    std::byte addresses[512] = {};  // of its port
    // In place of a node of the job: its DPU, as LONGSHORE_DPU has it, and by what the DPU knows the job.
    uint32_t is_dpu = 0;
    char dpu[kDpuNameBytes] = {};
    uint64_t job = 0;
    Token job_token{};
};

// How the processes' place is called in texts.
std::string name_of(const FarNode& far);

struct StartTasks {
    TaskHeader header{kControlMagic, TaskMessage::kStart};
    uint32_t has_stderr = 0, spin_us = 0;
    char plugin[kPathBytes] = {};
    char directory[kPathBytes] = {};
    // For a carrier: where to, and what the process there is told.
    FarNode far;
    uint32_t threads = 1, processes = 1, index = 0;
    char cores[1024] = {};
    // For a task process whose carrier is on another node: of the plug-in's file there; 0: there is none.
    uint64_t plugin_bytes = 0, plugin_hash = 0;
};

struct PluginLoaded {
    TaskHeader header{kControlMagic, TaskMessage::kLoaded};
    int32_t error = 0;
    PluginTable table;
    char text[kTextBytes] = {};
};

struct ServeRank {
    TaskHeader header{kControlMagic, TaskMessage::kServe};
    uint64_t client = 0;  // of this rank and pool, and never used again
    uint32_t pid = 0, has_heap = 0;
    SharedHeap heap;
};

struct RankServed {
    TaskHeader header{kControlMagic, TaskMessage::kServing};
    uint64_t client = 0;
    int32_t error = 0;
    char text[kTextBytes] = {};
};

struct LeaveRank {
    TaskHeader header{kControlMagic, TaskMessage::kLeave};
    uint64_t client = 0;
};

// Of those that have one, cut to its room.
template <class Message>
void set_text(Message* message, const std::string& text) {
    text.copy(message->text, sizeof message->text - 1);
}

// Takes a packet of exactly that type out of `bytes`; false: it is something else.
template <class Message>
bool take_packet(const std::byte* buffer, size_t bytes, Message* out) {
    if (bytes != sizeof *out) return false;
    const Message blank;
    memcpy(static_cast<void*>(out), buffer, sizeof *out);
    return out->header.magic == blank.header.magic && out->header.kind == blank.header.kind;
}

// Of a process that serves ranks: takes what its supervisor says of them. False: the supervisor is gone.
template <class Serve, class Leave>
bool hear_of_ranks(const Fd& socket, std::span<std::byte> buffer, Serve serve, Leave leave) {
    for (;;) {
        std::vector<Fd> descriptors;
        size_t bytes = 0;
        const Io io = receive_packet(socket, buffer.data(), buffer.size(), &bytes, &descriptors);
        if (io != Io::kOk) return io == Io::kAgain;
        ServeRank message;
        LeaveRank last;
        if (take_packet(buffer.data(), bytes, &message))
            serve(message, std::move(descriptors));
        else if (take_packet(buffer.data(), bytes, &last))
            leave(last.client);
    }
}

}  // namespace longshore::tasks
