#include "mpi/calls/select.h"

#include <atomic>

namespace longshore::mpi {
namespace {

// A DPU shares no memory with the ranks of its host, into which a block could be put once for all of them.
ls_algorithm hierarchical_or_flat() {
    const Shim& s = shim();
    if (s.settings.dpu.empty()) return LS_STAGED_HIERARCHICAL;
    static std::atomic<bool> said{false};
    if (s.rank == 0 && !said.exchange(true))
        say(LogLevel::kWarn,
            "staged-hierarchical cannot be done where service processes are on DPUs, which share no memory "
            "with the ranks; such calls are staged-flat, and counted as that");
    return LS_STAGED;
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
            *algorithm = hierarchical_or_flat();
            break;
    }
    return Reason::kNone;
}

}  // namespace

Reason select(GroupRecord& group, Call call, uint64_t bytes, ls_algorithm* algorithm) {
    const Shim& s = shim();
    const Selected collective = selected_of(call);
    const auto i = static_cast<size_t>(collective);
    if (const auto forced = s.forced.of[i]) return carried_by(*forced, Reason::kSelected, algorithm);
    // All but the bytes is the same in every call of that form on the group.
    const uint64_t form = call.is_blocking() ? kFormBlocking : kFormNonblocking;
    RememberedRule& last = group.rules[form][i];
    const SelectionRule* rule = last.find(bytes);
    if (!rule) {
        SelectionPoint point = s.place;
        point.ppn = group.ranks_per_node;
        point.nodes = group.nodes;
        point.bytes = bytes;
        point.form = form;
        const RuleWithin found = find_rule_within(s.selection, collective, point);
        if (!found.rule) return Reason::kSelected;
        last.remember(found);
        rule = found.rule;
    }
    // A rule for the fewest bytes says that they are not worth handing over.
    const bool small = rule->bytes.first == 0 && rule->bytes.last != UINT64_MAX;
    // But a persistent one has paid for its plan once; and what both MPIs have of these delivers wrong data
    // in places (tests/mpi/persistent.cc on MPICH 4.0 and Open MPI 4.1 alone).
    if (small && rule->carrier == Carrier::kMpi && call.form == Form::kPersistent)
        return carried_by(Carrier::kDirect, Reason::kNone, algorithm);
    return carried_by(rule->carrier, small ? Reason::kSmall : Reason::kSelected, algorithm);
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
