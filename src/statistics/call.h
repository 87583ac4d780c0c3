// The calls that may be carried, as statistics count them, why MPI served one, and where the time of one
// goes.
#pragma once

#include <cstdint>
#include <iterator>

#include "base/selection.h"
#include "host/host.h"

namespace longshore::statistics {

// The families of calls that may be offloaded: in the order of ls_collective, then those that the host
// library knows by another's name.
enum class Family : uint8_t {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) k##Name,
#define LONGSHORE_CARRIED_AS(Name, name, arguments, OTHER) k##Name,
#include "base/collectives.inc"
};
// By Family.
inline constexpr ls_collective kCollectiveOfFamily[] = {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) LS_##NAME,
#define LONGSHORE_CARRIED_AS(Name, name, arguments, OTHER) LS_##OTHER,
#include "base/collectives.inc"
};
enum class Form : uint8_t { kBlocking, kNonblocking, kPersistent };
inline constexpr int kCollectiveCount = LS_COLLECTIVE_COUNT;
inline constexpr int kFamilyCount = static_cast<int>(std::size(kCollectiveOfFamily));
inline constexpr int kCallCount = 3 * kFamilyCount;
inline constexpr int kAlgorithmCount = 3;

// One such call, as the statistics count it: under one name with counts of either size.
struct Call {
    Family family{};
    Form form{};

    // Blocking ones first.
    constexpr int index() const { return static_cast<int>(form) * kFamilyCount + static_cast<int>(family); }
    static constexpr Call at(int index) {
        return {static_cast<Family>(index % kFamilyCount), static_cast<Form>(index / kFamilyCount)};
    }
    bool is_blocking() const { return form == Form::kBlocking; }
    ls_collective collective() const { return kCollectiveOfFamily[static_cast<int>(family)]; }
};
const char* call_name(Call call);
// Whose rules of selection hold for it.
Selected selected_of(Call call);
const char* algorithm_name(Call call, ls_algorithm algorithm);

// Calls that Longshore does not carry and only times.
enum class Other : uint16_t {
#define LONGSHORE_OTHER_CALL(Name, is_collective) k##Name,
#define LONGSHORE_OTHER_ENTRY(Name, function) k##Name,
#include "statistics/other_calls.inc"
};
#define LONGSHORE_OTHER_CALL(Name, is_collective) +1
#define LONGSHORE_OTHER_ENTRY(Name, function) +1
inline constexpr int kOtherCount =
#include "statistics/other_calls.inc"
    ;
// Whether all ranks of a communicator wait in it for each other's data, or for each other.
bool is_collective(Other other);

// Everything that has a name in a trace, or that a rank can be in: the calls above by their index, then the
// waits and tests, then the calls that are only timed.
enum Function : uint16_t {
    kFunctionWait = kCallCount,
    kFunctionWaitall,
    kFunctionWaitany,
    kFunctionWaitsome,
    kFunctionTest,
    kFunctionTestall,
    kFunctionTestany,
    kFunctionTestsome,
    kFunctionGetStatus,
    kFunctionGetStatusAll,
    kFunctionGetStatusAny,
    kFunctionGetStatusSome,
    kFunctionOther,  // the first of them
    kFunctionCount = kFunctionOther + kOtherCount,
};
inline Function function_of(Call call) {
    return static_cast<Function>(call.index());
}
inline Function function_of(Other other) {
    return static_cast<Function>(kFunctionOther + static_cast<int>(other));
}
const char* function_name(uint16_t function);

// Why MPI served a call. Equal on all ranks of the call, but for kArguments.
enum class Reason : uint8_t {
    kNone,
    kOff,        // offload is off for this job
    kOneRank,    // nothing to move
    kIntercomm,  // plain MPI serves these
    kUnseen,     // a communicator made in a way that the shim does not see
    kNoGroup,    // Longshore could not make a group for the communicator
    kArguments,  // MPI is to report what is wrong
    kSmall,      // the table of rules says: fewer bytes than worth handing over
    kSnapshot,   // in place, and more bytes than may be copied first
    kSelected,   // the table of rules, or a forced algorithm, gives it to MPI
    kOptedOut,   // an info key of the communicator asks for MPI
};
inline constexpr int kReasonCount = 11;
const char* reason_name(Reason reason);

// Where the time of a call goes, on the rank that makes it.
enum class CallTime : uint8_t {
    kPosting,  // of offloaded calls: until the posting call has returned, or a blocking one has handed over
    kBetween,  // from then until the first wait, or until a test finds it complete: the program computes
    kWaiting,  // in waits for it
    kMpi,      // in calls left to the MPI
    kTesting,  // in tests of it; this time is in kBetween, too, unless the program has waited before
};
inline constexpr int kCallTimeCount = 5;

}  // namespace longshore::statistics
