#include "statistics/call.h"

namespace longshore::statistics {
namespace {

// By Function, the calls by Call::index().
constexpr const char* kFunctionNames[] = {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) "MPI_" #Name,
#define LONGSHORE_CARRIED_AS(Name, name, arguments, OTHER) "MPI_" #Name,
#include "base/collectives.inc"
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) "MPI_I" #name,
#define LONGSHORE_CARRIED_AS(Name, name, arguments, OTHER) "MPI_I" #name,
#include "base/collectives.inc"
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) "MPI_" #Name "_init",
#define LONGSHORE_CARRIED_AS(Name, name, arguments, OTHER) "MPI_" #Name "_init",
#include "base/collectives.inc"
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Request_get_status",
    "MPI_Request_get_status_all",
    "MPI_Request_get_status_any",
    "MPI_Request_get_status_some",
#define LONGSHORE_OTHER_CALL(Name, is_collective) "MPI_" #Name,
#define LONGSHORE_OTHER_ENTRY(Name, function) "MPI_" #Name,
#include "statistics/other_calls.inc"
};
static_assert(std::size(kFunctionNames) == kFunctionCount);

#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) \
    static_assert(static_cast<int>(Selected::k##Name) == static_cast<int>(LS_##NAME));
#include "base/collectives.inc"

Carrier carrier_of(ls_algorithm algorithm) {
    switch (algorithm) {
        case LS_DIRECT:
            return Carrier::kDirect;
        case LS_STAGED:
            return Carrier::kStaged;
        case LS_STAGED_HIERARCHICAL:
            return Carrier::kStagedHierarchical;
    }
    __builtin_unreachable();
}

}  // namespace

bool is_collective(Other other) {
    static constexpr bool kCollective[] = {
#define LONGSHORE_OTHER_CALL(Name, is_collective) is_collective,
#define LONGSHORE_OTHER_ENTRY(Name, function) false,
#include "statistics/other_calls.inc"
    };
    static_assert(std::size(kCollective) == kOtherCount);
    return kCollective[static_cast<int>(other)];
}

const char* function_name(uint16_t function) {
    return function < kFunctionCount ? kFunctionNames[function] : "?";
}

const char* call_name(Call call) {
    return kFunctionNames[call.index()];
}

Selected selected_of(Call call) {
    return static_cast<Selected>(call.collective());
}

const char* algorithm_name(Call call, ls_algorithm algorithm) {
    return carrier_name(selected_of(call), carrier_of(algorithm));
}

const char* reason_name(Reason reason) {
    static constexpr const char* kNames[kReasonCount] = {
        "none",     "offload off", "one rank",       "intercommunicator", "communicator not seen", "no group",
        "argument", "small",       "large in place", "selected",          "communicator opted out"};
    return kNames[static_cast<int>(reason)];
}

}  // namespace longshore::statistics
