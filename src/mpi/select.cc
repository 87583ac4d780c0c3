#include "mpi/select.h"

namespace longshore::mpi {
namespace {

Selected selected_of(Call call) {
    switch (call.collective()) {
        case LS_ALLTOALL:
            return Selected::kAlltoall;
        case LS_ALLTOALLV:
            return Selected::kAlltoallv;
        case LS_ALLGATHER:
            return Selected::kAllgather;
        case LS_ALLGATHERV:
            return Selected::kAllgatherv;
        case LS_BCAST:
            return Selected::kBcast;
        case LS_GATHER:
            return Selected::kGather;
        case LS_GATHERV:
            return Selected::kGatherv;
        case LS_SCATTER:
            return Selected::kScatter;
        case LS_SCATTERV:
            return Selected::kScatterv;
    }
    __builtin_unreachable();
}

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

Reason carried_by(Carrier carrier, Reason by_mpi, ls_algorithm* algorithm) {
    switch (carrier) {
        case Carrier::kMpi:
            return by_mpi;
        case Carrier::kDirect:
            *algorithm = LS_DIRECT;
            break;
        case Carrier::kStaged:
            *algorithm = LS_STAGED;
            break;
        case Carrier::kStagedHierarchical:
            *algorithm = LS_STAGED_HIERARCHICAL;
            break;
    }
    return Reason::kNone;
}

}  // namespace

Reason select(const GroupRecord& group, Call call, uint64_t bytes, ls_algorithm* algorithm) {
    const Shim& s = shim();
    const Selected collective = selected_of(call);
    if (const auto forced = s.forced.of[static_cast<size_t>(collective)])
        return carried_by(*forced, Reason::kSelected, algorithm);
    const SelectionRule* rule = find_rule(s.selection, collective, group.ranks_per_node, group.nodes, bytes);
    if (!rule) return Reason::kSelected;
    // A rule for the fewest bytes says that they are not worth handing over.
    const bool small = rule->bytes.first == 0 && rule->bytes.last != UINT64_MAX;
    return carried_by(rule->carrier, small ? Reason::kSmall : Reason::kSelected, algorithm);
}

const char* algorithm_name(Call call, ls_algorithm algorithm) {
    return carrier_name(selected_of(call), carrier_of(algorithm));
}

bool force_algorithm(std::string_view name, std::string_view value) {
    constexpr std::string_view kSuffix = "_algorithm";
    if (!name.ends_with(kSuffix)) return false;
    name.remove_suffix(kSuffix.size());
    const auto collective = find_selected(name);
    if (!collective) return false;
    const auto i = static_cast<size_t>(*collective);
    const auto carrier =
        value.empty() ? shim().settings.forced_algorithms.of[i] : find_carrier(*collective, value);
    if (!carrier && !value.empty()) return false;
    shim().forced.of[i] = carrier;
    return true;
}

}  // namespace longshore::mpi
