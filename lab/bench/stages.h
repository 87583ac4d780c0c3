// Where the time of one rank's call goes: what happened when, cut into stages that follow each other. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace longshore::bench {

// us after the rank entered the call; less than 0: did not happen.
struct Stamps {
    double published = -1;  // the others could see its operation
    double peers = -1;      // so was the last of those it exchanges blocks with
    double first = -1;      // the first chunk to or from it began to move
    double landed = -1;     // the last chunk to it had moved
    double read = -1;       // the last chunk from it had moved
    double end = 0;         // the call returned
};

inline constexpr std::array kStageNames = {"hand-over", "peers", "queue", "copy", "ack", "wake-up"};
using Stages = std::array<double, kStageNames.size()>;

// Their sum is `end`. A stage that was over before those in front of it were takes no time.
Stages stages_of(const Stamps& stamps);
double total(const Stages& stages);

// Which of the ranks' calls took longest; there is at least one.
std::size_t slowest(std::span<const Stages> ranks);

}  // namespace longshore::bench
