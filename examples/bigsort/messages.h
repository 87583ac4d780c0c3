// What a rank and its peer say to each other over MPI.
#pragma once

#include <cstdint>

#include "layout.h"

namespace bigsort {

enum Tag : int { kTagSetup = 1, kTagReady, kTagPage, kTagCredit, kTagDecision };

enum class Role : int { kRank = 0, kPeer = 1 };
enum class Offload : int { kNone, kMpmd, kTasks, kAuto };
enum class Placement : int { kSameHost, kOtherNode, kDpu };

// From rank 0 to all processes: whether and how they go on.
struct Start {
    int go = 0;
    Offload offload = Offload::kNone;
    Placement placement = Placement::kSameHost;
};

constexpr std::size_t kFolderBytesMax = 1024;

// From a rank to its peer, before the first cycle.
struct Setup {
    Layout layout;
    std::uint64_t files_max = 1;
    Offload offload = Offload::kMpmd;
    int rank = 0;
    char folder[kFolderBytesMax] = {};  // as the peer sees it
};

// The peer's answer, and its acknowledgement of a page: that page is written, and its file closed if it was
// the last. Credits come in the order of the pages. An error says which call has failed; then no further
// credit comes.
struct Credit {
    std::int32_t error = 0;
    char call[28] = {};
    char file[64] = {};  // its name in the folder
};

}  // namespace bigsort
