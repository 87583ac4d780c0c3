// What a rank and the agent of its machine say to each other: as fabric/shm/control.h has it, of one build
// and one machine, and everything checked by its receiver. A connection whose rank does not keep to this is
// closed.
#pragma once

#include "fabric/shm/control.h"

namespace longshore {

enum class AgentCopying : uint32_t { kWhereACoreIsSpare, kNever, kAlways };

// The starter writes this into descriptor 3, and reads ServiceReady from descriptor 4.
struct AgentParameters {
    ControlHeader header;
    uint32_t limit_s = 5;
    uint32_t exports = 0;  // not 0: memory is to be exported, if it can be
    // For tasks that go to the DPU: where it is, by what it knows the job, and how many ranks this machine
    // has.
    char dpu[kDpuNameBytes] = {};
    uint64_t job = 0;
    Token job_token{};
    uint32_t rank_count = 1, restarts_max = 0;
    AgentCopying copying = AgentCopying::kWhereACoreIsSpare;  // for ranks that compute
    uint32_t tls = 0;  // not 0: the user wants all that crosses the network to be encrypted
};

enum class AgentKind : uint32_t {
    kHello = 1,  // rank: who it is, with the descriptor of its memory; answered
    kOpen,       // rank; answered
    kClose,      // rank
    kAnswer,
    kCopies,      // rank: which of the job it is, and whether the agent may copy for it while it computes;
                  // answered when its stand-in knows of the agent, if it will soon
    kStopCopies,  // rank: not any more; answered when nothing more is written into its memory
    kWithdraw,    // rank: likewise, and others find its memory as it is now; answered when it is the rank's
                  // alone
    kLeave,       // rank: it goes, and its operations are over
};

struct AgentHeader {
    uint32_t magic = kControlMagic;
    AgentKind kind = AgentKind::kHello;
};

struct AgentHello {
    AgentHeader header{kControlMagic, AgentKind::kHello};
    Token token{};
};

// `id`: the rank's, of an opening that it has not got. Bytes from `offset` of the memfd.
struct AgentOpen {
    AgentHeader header{kControlMagic, AgentKind::kOpen};
    uint64_t id = 0, offset = 0, bytes = 0;
    uint32_t exports = 0;  // not 0: it is to be exported, too
};
struct AgentClose {
    AgentHeader header{kControlMagic, AgentKind::kClose};
    uint64_t id = 0;
};

// `word` is at that address of the rank as long as others may copy from its memory
// (dpu/rank/far_neighbours.h).
struct AgentCopies {
    AgentHeader header{kControlMagic, AgentKind::kCopies};
    uint32_t rank = 0;    // of the job
    uint32_t copies = 0;  // not 0: for it, too, and not only from it
    uint64_t word_address = 0, word = 0;
};
struct AgentStopCopies {
    AgentHeader header{kControlMagic, AgentKind::kStopCopies};
};

struct AgentWithdraw {
    AgentHeader header{kControlMagic, AgentKind::kWithdraw};
};
struct AgentLeave {
    AgentHeader header{kControlMagic, AgentKind::kLeave};
};

// The key follows, then what is exported.
struct AgentAnswer {
    AgentHeader header{kControlMagic, AgentKind::kAnswer};
    uint64_t id = 0;       // of what was opened; 0: to all that opens nothing
    uint64_t address = 0;  // in the agent
    uint32_t ok = 0, key_bytes = 0, exported_bytes = 0;
    char reason[kReasonBytes] = {};
};

constexpr uint32_t kAgentOpeningsMax = 16384;  // of one rank
constexpr size_t kAgentPacketBytesMax = 2048;

}  // namespace longshore
