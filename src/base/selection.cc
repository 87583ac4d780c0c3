#include "base/selection.h"

#include <algorithm>

#include "base/selection_conditions.h"

namespace longshore {
namespace {

// What holds without a file, in the same words as a file. Up to blocks of 4 KiB a call costs the MPI less
// than it costs us to hand it over; from 8 KiB to 16 KiB on, by the MPI, it is the other way round. Where
// ranks that wait in the MPI take the cores of others, nothing is small. Blocking calls between machines that
// TCP joins have nothing to overlap with, and are the MPI's where it was faster, which depends on whether
// service processes share the ranks' cores (docs/selection.md has the figures).
constexpr std::string_view kBuiltIn = R"(
# collective  conditions                          algorithm
alltoall    form blocking  network tcp  spare no  crowded no  rate unknown               mpi
alltoall    form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
alltoall    form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
alltoallv   form blocking  network tcp  spare no  crowded no                             mpi
allgather   form blocking  network tcp  spare no  crowded no  rate unknown               mpi
allgather   form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
allgather   form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
allgatherv  form blocking  network tcp  spare no  crowded no  rate unknown               mpi
allgatherv  form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
allgatherv  form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
bcast       form blocking  network tcp  spare no  crowded no  rate unknown               mpi
bcast       form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
bcast       form blocking  network tcp  spare no  crowded no  rate 2.5G-10G  bytes 0-1M  mpi
bcast       form blocking  network tcp  spare no  crowded no                 bytes 0-32K  mpi
gather      form blocking  network tcp  spare no  crowded no  rate unknown               mpi
gather      form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
gather      form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
gatherv     form blocking  network tcp  spare no  crowded no                             mpi
scatter     form blocking  network tcp  spare no  crowded no  rate unknown               mpi
scatter     form blocking  network tcp  spare no  crowded no  rate 10G-                  mpi
scatter     form blocking  network tcp  spare no  crowded no                 bytes 0-64K  mpi
scatterv    form blocking  network tcp  spare no  crowded no                             mpi
alltoall    form blocking  network tcp  spare yes  crowded no                bytes 0-128K  mpi
allgather   form blocking  network tcp  spare yes  crowded no                bytes 0-128K  mpi
bcast       form blocking  network tcp  spare yes  crowded no                bytes 0-64K   mpi
gather      form blocking  network tcp  spare yes  crowded no                bytes 0-128K  mpi
scatter     form blocking  network tcp  spare yes  crowded no                bytes 0-128K  mpi
alltoall    crowded no   ppn 1-2  bytes 0-16K   mpi
alltoall    crowded no   ppn 1-2  bytes 16K-    direct
alltoall    crowded no   ppn 3-8  bytes 0-64K   mpi
alltoall    crowded no   ppn 3-8  bytes 64K-    direct
alltoall    crowded no   ppn 9-   bytes 0-256K  mpi
alltoall    crowded no   ppn 9-   bytes 256K-   direct
alltoall    crowded yes                         direct
alltoallv                                        direct
allgather   crowded no   ppn 1-2  bytes 0-16K   mpi
allgather   crowded no   ppn 1-2  bytes 16K-    direct
allgather   crowded no   ppn 3-8  bytes 0-64K   mpi
allgather   crowded no   ppn 3-8  bytes 64K-    direct
allgather   crowded no   ppn 9-   bytes 0-256K  mpi
allgather   crowded no   ppn 9-   bytes 256K-   direct
allgather   crowded yes                         direct
allgatherv                                       direct
bcast       crowded no            bytes 0-8K    mpi
bcast       crowded no            bytes 8K-     direct
bcast       crowded yes                         direct
gather      crowded no   ppn 1-2  bytes 0-16K   mpi
gather      crowded no   ppn 1-2  bytes 16K-    direct
gather      crowded no   ppn 3-8  bytes 0-64K   mpi
gather      crowded no   ppn 3-8  bytes 64K-    direct
gather      crowded no   ppn 9-   bytes 0-256K  mpi
gather      crowded no   ppn 9-   bytes 256K-   direct
gather      crowded yes                         direct
gatherv                                          direct
scatter     crowded no   ppn 1-2  bytes 0-16K   mpi
scatter     crowded no   ppn 1-2  bytes 16K-    direct
scatter     crowded no   ppn 3-8  bytes 0-64K   mpi
scatter     crowded no   ppn 3-8  bytes 64K-    direct
scatter     crowded no   ppn 9-   bytes 0-256K  mpi
scatter     crowded no   ppn 9-   bytes 256K-   direct
scatter     crowded yes                         direct
scatterv                                         direct
)";

struct CollectiveRow {
    const char* name;
    bool is_shared, bytes_known;
};
constexpr std::array kCollectiveRows = {
#define LONGSHORE_COLLECTIVE(NAME, Name, name, arguments, is_shared, bytes_known) \
    CollectiveRow{#name, is_shared != 0, bytes_known != 0},
#include "base/collectives.inc"
};
constexpr std::array kCarriers = {Carrier::kMpi, Carrier::kDirect, Carrier::kStaged,
                                  Carrier::kStagedHierarchical};

size_t index(Selected collective) {
    return static_cast<size_t>(collective);
}

}  // namespace

const char* selected_name(Selected collective) {
    return kCollectiveRows[index(collective)].name;
}

std::optional<Selected> find_selected(std::string_view name) {
    for (size_t i = 0; i < kSelectedCount; ++i)
        if (name == kCollectiveRows[i].name) return static_cast<Selected>(i);
    return std::nullopt;
}

std::span<const Carrier> carriers_of(Selected collective) {
    return std::span(kCarriers).first(is_to_all(collective) ? 4 : 3);
}

const char* carrier_name(Selected collective, Carrier carrier) {
    switch (carrier) {
        case Carrier::kMpi:
            return "mpi";
        case Carrier::kDirect:
            return "direct";
        case Carrier::kStaged:
            return is_to_all(collective) ? "staged-flat" : "staged";
        case Carrier::kStagedHierarchical:
            return "staged-hierarchical";
    }
    return "";
}

std::optional<Carrier> find_carrier(Selected collective, std::string_view name) {
    for (const Carrier carrier : carriers_of(collective))
        if (name == carrier_name(collective, carrier)) return carrier;
    return std::nullopt;
}

std::string carrier_list(Selected collective) {
    std::string list;
    const auto carriers = carriers_of(collective);
    for (size_t i = 0; i < carriers.size(); ++i) {
        if (i > 0) list += i + 1 < carriers.size() ? ", " : " or ";
        list += carrier_name(collective, carriers[i]);
    }
    return list;
}

bool is_to_all(Selected collective) {
    return kCollectiveRows[index(collective)].is_shared;
}

bool has_bytes(Selected collective) {
    return kCollectiveRows[index(collective)].bytes_known;
}

Selection built_in_selection() {
    Selection selection;
    parse_selection(kBuiltIn, &selection, nullptr);
    return selection;
}

bool SelectionRule::contains(const SelectionPoint& point) const {
    return bytes.contains(point.bytes) && nodes.contains(point.nodes) && ppn.contains(point.ppn) &&
           form.contains(point.form) && crowded.contains(point.crowded) && network.contains(point.network) &&
           spare.contains(point.spare) && rate.contains(point.rate);
}

bool SelectionRule::covers(const SelectionRule& other) const {
    return holds_wherever(*this, other, 0);
}

const SelectionRule* find_rule(const Selection& selection, Selected collective, const SelectionPoint& point) {
    return find_rule_within(selection, collective, point).rule;
}

RuleWithin find_rule_within(const Selection& selection, Selected collective, const SelectionPoint& point) {
    RuleWithin found;
    for (const SelectionRule& rule : selection.rules[index(collective)]) {
        SelectionPoint there = point;
        there.bytes = rule.bytes.first;
        if (!rule.contains(there)) continue;  // for no number of bytes
        if (rule.bytes.contains(point.bytes)) {
            found.rule = &rule;
            found.bytes.first = std::max(found.bytes.first, rule.bytes.first);
            found.bytes.last = std::min(found.bytes.last, rule.bytes.last);
            break;
        }
        if (rule.bytes.last < point.bytes)
            found.bytes.first = std::max(found.bytes.first, rule.bytes.last + 1);
        else
            found.bytes.last = std::min(found.bytes.last, rule.bytes.first - 1);
    }
    return found;
}

Carrier choose(const Selection& selection, Selected collective, const SelectionPoint& point) {
    const SelectionRule* rule = find_rule(selection, collective, point);
    return rule != nullptr ? rule->carrier : Carrier::kDirect;
}

}  // namespace longshore
