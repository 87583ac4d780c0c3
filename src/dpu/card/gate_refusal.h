// Why the standing service takes no connection.
#pragma once

#include <cstdint>
#include <string>

namespace longshore {

enum class GateCause : uint8_t {
    kNetwork,    // its address is in no network of `allow`
    kLimit,      // one of the limits of the configuration
    kSlow,       // it did not say who it is in time
    kStranger,   // what it says is not a rank's
    kVersion,    // a rank of another version
    kBroken,     // too long, or ended early
    kValue,      // a value that a rank cannot have
    kToken,      // not the job's token
    kRank,       // the job has no such rank, or has it already
    kNoProcess,  // no process can be started here
};
constexpr size_t kGateCauses = 10;
const char* gate_cause_name(GateCause cause);

struct GateRefusal {
    GateCause cause = GateCause::kBroken;
    std::string reason;     // for the rank's user
    bool may_pass = false;  // what is in the way may be gone soon: the rank waits for it, at most limit_s
};

}  // namespace longshore
