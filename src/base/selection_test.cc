#include "base/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>

#include "base/remembered_rule.h"

namespace longshore {
namespace {

constexpr Carrier kMpi = Carrier::kMpi, kDirect = Carrier::kDirect, kStaged = Carrier::kStaged,
                  kHierarchical = Carrier::kStagedHierarchical;

Selection parsed(std::string_view text) {
    Selection selection = built_in_selection();
    SelectionError error;
    EXPECT_TRUE(parse_selection(text, &selection, &error))
        << error.line << ":" << error.column << ": " << error.message << "\n"
        << text;
    return selection;
}

// "line:column: message" of a text that must be refused, and change nothing.
std::string refused(std::string_view text) {
    Selection selection = built_in_selection();
    SelectionError error;
    EXPECT_FALSE(parse_selection(text, &selection, &error)) << text;
    EXPECT_EQ(selection, built_in_selection());
    return std::to_string(error.line) + ":" + std::to_string(error.column) + ": " + error.message;
}

struct Axis {
    SelectionRange SelectionRule::*range;
    uint64_t SelectionPoint::*value;
};
constexpr Axis kAxes[] = {
    {&SelectionRule::ppn, &SelectionPoint::ppn},         {&SelectionRule::nodes, &SelectionPoint::nodes},
    {&SelectionRule::crowded, &SelectionPoint::crowded}, {&SelectionRule::form, &SelectionPoint::form},
    {&SelectionRule::network, &SelectionPoint::network}, {&SelectionRule::spare, &SelectionPoint::spare},
    {&SelectionRule::rate, &SelectionPoint::rate},       {&SelectionRule::bytes, &SelectionPoint::bytes}};

// Points made of the ends of the rules' ranges and their neighbours, drawn at random.
void expect_points_covered(const Selection& selection, size_t points = 2000) {
    std::mt19937_64 random(1);
    for (size_t i = 0; i < kSelectedCount; ++i) {
        const auto& rules = selection.rules[i];
        for (size_t n = 0; n < points; ++n) {
            SelectionPoint point;
            for (const Axis& axis : kAxes) {
                const SelectionRange whole = SelectionRule{}.*axis.range;
                const SelectionRange& range = rules[random() % rules.size()].*axis.range;
                const uint64_t at = (random() % 2 != 0 ? range.first : range.last) + random() % 3 - 1;
                point.*axis.value = whole.contains(at) ? at : range.first;
            }
            ASSERT_TRUE(std::any_of(rules.begin(), rules.end(),
                                    [&](const SelectionRule& rule) { return rule.contains(point); }))
                << selected_name(static_cast<Selected>(i)) << " ppn " << point.ppn << " nodes " << point.nodes
                << " bytes " << point.bytes << " crowded " << point.crowded << " form " << point.form
                << " network " << point.network << " spare " << point.spare << " rate " << point.rate;
        }
    }
}

constexpr std::string_view kExample = R"(# an example
bcast  nodes 1   direct
bcast  nodes 2-  bytes 0-64K   mpi                  # small ones
bcast  nodes 2-  ppn 1-4  bytes 64K-  staged-flat
bcast  nodes 2-  ppn 5-   bytes 64K-1M  staged-flat
	bcast  nodes 2-  ppn 5-   bytes 1M-  staged-hierarchical

alltoallv  nodes 1  direct
alltoallv  nodes 2- staged
)";

TEST(Selection, BuiltInTableIsComplete) {
    const Selection selection = built_in_selection();
    for (size_t i = 0; i < kSelectedCount; ++i) EXPECT_FALSE(selection.rules[i].empty());
    expect_points_covered(selection);
}

TEST(Selection, BuiltInTableLeavesSmallBlocksToTheMpi) {
    const Selection selection = built_in_selection();
    for (const auto collective :
         {Selected::kAlltoall, Selected::kAllgather, Selected::kGather, Selected::kScatter}) {
        for (const uint64_t ppn : {2, 3, 4, 8, 9, 32}) {
            const uint64_t small = 4096 * ppn, large = 32768 * ppn;
            EXPECT_EQ(choose(selection, collective, {ppn, 1, small}), kMpi) << ppn;
            EXPECT_EQ(choose(selection, collective, {ppn, 1, large}), kDirect) << ppn;
            EXPECT_EQ(choose(selection, collective, {ppn, 1, small, 1}), kDirect) << ppn;
        }
    }
    EXPECT_EQ(choose(selection, Selected::kBcast, {2, 1, 4096}), kMpi);
    EXPECT_EQ(choose(selection, Selected::kBcast, {2, 1, 8192}), kDirect);
    EXPECT_EQ(choose(selection, Selected::kBcast, {2, 1, 1, 1}), kDirect);
    for (const auto collective :
         {Selected::kAlltoallv, Selected::kAllgatherv, Selected::kGatherv, Selected::kScatterv})
        EXPECT_EQ(choose(selection, collective, {2, 1, 0}), kDirect);
}

TEST(Selection, BuiltInTableLeavesBlockingCallsOverQuickTcpToTheMpi) {
    const Selection selection = built_in_selection();
    for (size_t i = 0; i < kSelectedCount; ++i) {
        const auto collective = static_cast<Selected>(i);
        const auto carrier = [&](uint64_t form, uint64_t network, uint64_t spare, uint64_t rate) {
            return choose(selection, collective, {1, 2, 1 << 20, 0, form, network, spare, rate});
        };
        const Carrier slow = has_bytes(collective) ? kDirect : kMpi;
        EXPECT_EQ(carrier(kFormBlocking, kNetworkTcp, 0, 1000), slow);
        EXPECT_EQ(carrier(kFormBlocking, kNetworkTcp, 0, 9999), slow);
        EXPECT_EQ(carrier(kFormBlocking, kNetworkTcp, 0, 10000), kMpi);
        EXPECT_EQ(carrier(kFormBlocking, kNetworkTcp, 0, kRateUnknown), kMpi);
        EXPECT_EQ(carrier(kFormBlocking, kNetworkTcp, 1, 10000), kDirect);
        EXPECT_EQ(carrier(kFormBlocking, kNetworkUcx, 0, kRateUnknown), kDirect);
        EXPECT_EQ(carrier(kFormBlocking, kNetworkNone, 0, kRateUnknown), kDirect);
        EXPECT_EQ(carrier(kFormNonblocking, kNetworkTcp, 0, kRateUnknown), kDirect);
        EXPECT_EQ(
            choose(selection, collective, {1, 2, 1 << 20, 1, kFormBlocking, kNetworkTcp, 0, kRateUnknown}),
            kDirect)
            << "crowded";
    }
}

TEST(Selection, CrowdedIsACondition) {
    const Selection selection = parsed(
        "bcast crowded yes nodes 2- mpi\nbcast crowded yes nodes 1 direct\n"
        "bcast crowded no staged-flat\n");
    EXPECT_EQ(choose(selection, Selected::kBcast, {1, 2, 1, 1}), kMpi);
    EXPECT_EQ(choose(selection, Selected::kBcast, {1, 1, 1, 1}), kDirect);
    EXPECT_EQ(choose(selection, Selected::kBcast, {1, 2, 1}), kStaged);
    EXPECT_EQ(parsed(format_selection(selection)), selection);
    EXPECT_EQ(refused("bcast crowded no mpi"),
              "1:1: bcast has no rule for ppn 1, nodes 1, crowded yes, bytes 0-");
    EXPECT_EQ(refused("bcast mpi\nbcast crowded yes mpi"),
              "2:1: this rule never holds: the one of line 1 comes before it and holds wherever it would");
    EXPECT_EQ(refused("bcast crowded 1 mpi"), "1:15: '1' is not valid: behind 'crowded' go yes or no");
}

TEST(Selection, FormNetworkSpareAndRateAreConditions) {
    const Selection selection = parsed(
        "alltoallv form blocking direct\n"
        "alltoallv form nonblocking network none direct\n"
        "alltoallv form nonblocking network ucx mpi\n"
        "alltoallv form nonblocking network tcp rate 0-2.5G mpi\n"
        "alltoallv form nonblocking network tcp rate 2.5G- spare yes direct\n"
        "alltoallv form nonblocking network tcp rate 2.5G- spare no mpi\n"
        "alltoallv form nonblocking network tcp rate unknown staged\n");
    const auto carrier = [&](uint64_t form, uint64_t network, uint64_t spare, uint64_t rate) {
        return choose(selection, Selected::kAlltoallv, {2, 2, 0, 0, form, network, spare, rate});
    };
    EXPECT_EQ(carrier(kFormBlocking, kNetworkTcp, 0, 1000), kDirect);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkNone, 0, 1000), kDirect);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkUcx, 1, 100000), kMpi);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkTcp, 1, 1), kMpi);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkTcp, 1, 2499), kMpi);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkTcp, 1, 2500), kDirect);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkTcp, 0, 2500), kMpi);
    EXPECT_EQ(carrier(kFormNonblocking, kNetworkTcp, 0, kRateUnknown), kStaged);
    EXPECT_EQ(parsed(format_selection(selection)), selection);
    EXPECT_EQ(format_rules(Selected::kAlltoallv, selection.rules[1]),
              "alltoallv  form blocking                                            direct\n"
              "alltoallv  form nonblocking  network none                           direct\n"
              "alltoallv  form nonblocking  network ucx                            mpi\n"
              "alltoallv  form nonblocking  network tcp              rate 0-2.5G   mpi\n"
              "alltoallv  form nonblocking  network tcp   spare yes  rate 2.5G-    direct\n"
              "alltoallv  form nonblocking  network tcp   spare no   rate 2.5G-    mpi\n"
              "alltoallv  form nonblocking  network tcp              rate unknown  staged\n");
    expect_points_covered(selection);
}

TEST(Selection, HolesOfThemSayWhere) {
    EXPECT_EQ(refused("bcast form nonblocking mpi"),
              "1:1: bcast has no rule for ppn 1, nodes 1, form blocking, bytes 0-");
    EXPECT_EQ(refused("gatherv network none mpi\ngatherv network tcp mpi"),
              "2:1: gatherv has no rule for ppn 1, nodes 1, network ucx");
    EXPECT_EQ(refused("gatherv rate 0-1G mpi\ngatherv rate 1G- mpi"),
              "2:1: gatherv has no rule for ppn 1, nodes 1, rate unknown");
    EXPECT_EQ(refused("gatherv rate unknown mpi\ngatherv rate 1G- mpi"),
              "2:1: gatherv has no rule for ppn 1, nodes 1, rate 0");
    EXPECT_EQ(refused("gatherv rate unknown mpi\ngatherv rate 0-1G mpi\ngatherv rate 2G- mpi"),
              "3:1: gatherv has no rule for ppn 1, nodes 1, rate 1G");
    EXPECT_EQ(refused("gatherv spare yes mpi\ngatherv spare yes form nonblocking direct\ngatherv mpi"),
              "2:1: this rule never holds: the one of line 1 comes before it and holds wherever it would");
    EXPECT_EQ(refused("gatherv form persistent mpi"),
              "1:14: 'persistent' is not valid: behind 'form' go blocking or nonblocking");
    EXPECT_EQ(refused("gatherv network rdma mpi"),
              "1:17: 'rdma' is not valid: behind 'network' go none, tcp or ucx");
    for (const char* bad : {"1G", "0-0", "0-1", "2.5G-1G", "1.2345G-", "1.G-", ".5G-", "1.5-", "1K-", "-",
                            "none", "99999999999999999999-", "18446744073709551G-"})
        EXPECT_EQ(refused(std::string("gatherv rate ") + bad + " mpi"),
                  std::string("1:14: '") + bad +
                      "' is not valid: behind 'rate' go rates such as 0-2.5G, 2.5G-25G or 25G- (below the "
                      "second), or unknown");
}

TEST(Selection, Rates) {
    EXPECT_EQ(read_rate("100"), 100u);
    EXPECT_EQ(read_rate("100M"), 100u);
    EXPECT_EQ(read_rate("2.5G"), 2500u);
    EXPECT_EQ(read_rate("0.001g"), 1u);
    EXPECT_EQ(read_rate("400G"), 400000u);
    for (const uint64_t rate :
         {uint64_t{0}, uint64_t{1}, uint64_t{999}, uint64_t{1000}, uint64_t{1001}, uint64_t{2500},
          uint64_t{10010}, uint64_t{UINT64_MAX / 1000 * 1000}, uint64_t{UINT64_MAX}})
        EXPECT_EQ(read_rate(show_rate(rate)), rate) << show_rate(rate);
}

// As many rules as there may be, cut so that the check for holes has as much to look at as was found.
TEST(Selection, TheLargestTablesAreCheckedSoon) {
    // A staircase in every condition that has many values: at each step of one, others begin or end.
    std::string text;
    for (int a = 0; a < 4; ++a)
        for (int b = 0; b < 4; ++b)
            for (int c = 0; c < 4; ++c) {
                const auto counts = [](int step, int of) {
                    const int first = step == 0 ? 1 : 10 * step + of;
                    return std::to_string(first) + "-" +
                           (step == 3 ? "" : std::to_string(10 * (step + 1) + of - 1));
                };
                const int first = c == 0 ? 0 : 100 * c + 4 * a + b;
                text += "bcast ppn " + counts(a, 0) + " nodes " + counts(b, a) + " bytes " +
                        std::to_string(first) + "-" +
                        (c == 3 ? "" : std::to_string(100 * (c + 1) + 4 * a + b)) + " mpi\n";
            }
    const std::clock_t begin =
        std::clock();  // of a core: a machine that is busy with other things takes longer
    const Selection selection = parsed(text);
    const double taken_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_EQ(selection.rules[4].size(), kSelectionRulesMax);
    EXPECT_LT(taken_s, 1.0);
    expect_points_covered(selection);
}

TEST(Selection, Chooses) {
    const Selection selection = parsed(kExample);
    const auto bcast = [&](uint64_t ppn, uint64_t nodes, uint64_t bytes) {
        return choose(selection, Selected::kBcast, {ppn, nodes, bytes});
    };
    EXPECT_EQ(bcast(8, 1, 1 << 20), kDirect);
    EXPECT_EQ(bcast(8, 2, 0), kMpi);
    EXPECT_EQ(bcast(1, 2, 65535), kMpi);
    EXPECT_EQ(bcast(1, 2, 65536), kStaged);
    EXPECT_EQ(bcast(4, 9, UINT64_MAX), kStaged);
    EXPECT_EQ(bcast(5, 9, (1 << 20) - 1), kStaged);
    EXPECT_EQ(bcast(5, 9, 1 << 20), kHierarchical);
    EXPECT_EQ(choose(selection, Selected::kAlltoallv, {1, 2, 0}), kStaged);
    // Not in the text: as built in.
    EXPECT_EQ(selection.rules[0], built_in_selection().rules[0]);
    expect_points_covered(selection);
}

TEST(Selection, NothingInTheTextChangesNothing) {
    for (const char* text : {"", "\n\n", "# bcast mpi", "   \t\r\n#\n"})
        EXPECT_EQ(parsed(text), built_in_selection());
}

TEST(Selection, FormatsInColumnsAndReadsItBack) {
    const Selection selection = parsed(kExample);
    EXPECT_EQ(parsed(format_selection(selection)), selection);
    EXPECT_EQ(format_rules(Selected::kBcast, selection.rules[static_cast<size_t>(Selected::kBcast)]),
              "bcast           nodes 1                 direct\n"
              "bcast           nodes 2-  bytes 0-64K   mpi\n"
              "bcast  ppn 1-4  nodes 2-  bytes 64K-    staged-flat\n"
              "bcast  ppn 5-   nodes 2-  bytes 64K-1M  staged-flat\n"
              "bcast  ppn 5-   nodes 2-  bytes 1M-     staged-hierarchical\n");
    EXPECT_EQ(format_rules(Selected::kGatherv, built_in_selection().rules[6]),
              "gatherv  form blocking  network tcp  spare no  crowded no  mpi\n"
              "gatherv                                                    direct\n");
}

TEST(Selection, SyntaxErrorsSayWhere) {
    EXPECT_EQ(
        refused("# fine\n  brcast mpi\n"),
        "2:3: 'brcast' is not a collective; there are alltoall, alltoallv, allgather, allgatherv, bcast, "
        "gather, gatherv, scatter, scatterv");
    EXPECT_EQ(
        refused("bcast  staged"),
        "1:8: 'staged' is not an algorithm; bcast takes mpi, direct, staged-flat or staged-hierarchical");
    EXPECT_EQ(refused("\n\ngather nodes 1 staged-flat"),
              "3:16: 'staged-flat' is not an algorithm; gather takes mpi, direct or staged");
    EXPECT_EQ(refused("bcast  # mpi"),
              "1:6: the algorithm is missing; bcast takes mpi, direct, staged-flat or staged-hierarchical");
    EXPECT_EQ(refused("bcast nodes 1-"),
              "1:15: the algorithm is missing; bcast takes mpi, direct, staged-flat or staged-hierarchical");
    EXPECT_EQ(refused("bcast mpi direct"), "1:11: 'direct' stands behind the algorithm, which ends a rule");
    EXPECT_EQ(refused("bcast nodes 1 nodes 2 mpi"), "1:15: 'nodes' is there twice");
    EXPECT_EQ(refused("bcast nodes"), "1:12: behind 'nodes' go numbers such as 1, 2-4 or 5-");
    EXPECT_EQ(refused("alltoallv bytes 0-64K mpi\n"),
              "1:11: alltoallv: not all ranks know its sizes, so its rules take no bytes");
    for (const char* name : {"gatherv", "scatterv"})
        EXPECT_NE(refused(std::string(name) + " bytes 0- mpi").find("take no bytes"), std::string::npos);
    for (const char* bad : {"0", "0-1", "2-1", "-1", "-", "1-2-3", "x", "1K", "1,2", "99999999999999999999"})
        EXPECT_EQ(
            refused(std::string("bcast nodes ") + bad + " mpi"),
            std::string("1:13: '") + bad + "' is not valid: behind 'nodes' go numbers such as 1, 2-4 or 5-");
    for (const char* bad :
         {"64K", "-64K", "-", "64K-64K", "64K-1K", "64X-", "64K-x", "1-18446744073709551616"})
        EXPECT_EQ(refused(std::string("bcast ppn 1-\tbytes ") + bad + " mpi"),
                  std::string("1:20: '") + bad +
                      "' is not valid: behind 'bytes' go sizes such as 0-64K, 64K-1M or 1M- (below the "
                      "second)");
}

TEST(Selection, HolesSayWhere) {
    EXPECT_EQ(refused("bcast nodes 2- mpi\n"), "1:1: bcast has no rule for ppn 1, nodes 1, bytes 0-");
    EXPECT_EQ(refused("bcast nodes 1-3 mpi\n\n bcast nodes 5- mpi\nalltoall mpi"),
              "3:2: bcast has no rule for ppn 1, nodes 4, bytes 0-");
    EXPECT_EQ(refused("bcast bytes 1- mpi"), "1:1: bcast has no rule for ppn 1, nodes 1, bytes 0-1");
    EXPECT_EQ(refused("bcast bytes 0-4K mpi\nbcast bytes 8K- mpi"),
              "2:1: bcast has no rule for ppn 1, nodes 1, bytes 4K-8K");
    EXPECT_EQ(refused("bcast bytes 0-4K mpi"), "1:1: bcast has no rule for ppn 1, nodes 1, bytes 4K-");
    EXPECT_EQ(refused("gatherv ppn 1-2 mpi\ngatherv ppn 3- nodes 1-7 mpi"),
              "2:1: gatherv has no rule for ppn 3, nodes 8");
}

TEST(Selection, TheFirstRuleThatHoldsCounts) {
    const Selection selection = parsed(
        "bcast form blocking bytes 0-1M mpi\n"
        "bcast nodes 2- bytes 4K- staged-flat\n"
        "bcast direct\n");
    const auto carrier = [&](uint64_t nodes, uint64_t bytes, uint64_t form) {
        return choose(selection, Selected::kBcast, {1, nodes, bytes, 0, form});
    };
    EXPECT_EQ(carrier(2, 8192, kFormBlocking), kMpi);
    EXPECT_EQ(carrier(2, 8192, kFormNonblocking), kStaged);
    EXPECT_EQ(carrier(2, 1 << 20, kFormBlocking), kStaged);
    EXPECT_EQ(carrier(1, 1 << 20, kFormBlocking), kDirect);
    EXPECT_EQ(carrier(2, 4095, kFormNonblocking), kDirect);
    EXPECT_EQ(parsed(format_selection(selection)), selection);
    expect_points_covered(selection);
}

TEST(Selection, RulesThatNeverHoldSayWhere) {
    EXPECT_EQ(refused("bcast mpi\n  bcast mpi"),
              "2:3: this rule never holds: the one of line 1 comes before it and holds wherever it would");
    EXPECT_EQ(refused("bcast bytes 4K- mpi\nbcast direct\n\nbcast bytes 0-5000 mpi"),
              "4:1: this rule never holds: the one of line 2 comes before it and holds wherever it would");
    EXPECT_EQ(refused("alltoallv nodes 1-3 mpi\nalltoallv nodes 2-3 ppn 4 direct\nalltoallv mpi"),
              "2:1: this rule never holds: the one of line 1 comes before it and holds wherever it would");
}

TEST(Selection, TextAndRulesAreBounded) {
    std::string many;
    for (size_t i = 0; i < kSelectionRulesMax; ++i)
        many += "bcast nodes " + std::to_string(i + 1) + (i + 1 < kSelectionRulesMax ? "" : "-") + " mpi\n";
    EXPECT_EQ(parsed(many).rules[static_cast<size_t>(Selected::kBcast)].size(), kSelectionRulesMax);
    EXPECT_EQ(refused(many + "bcast mpi"), "65:1: bcast has more than 64 rules");
    EXPECT_EQ(refused(std::string(kSelectionBytesMax + 1, '\n')), "1:1: the text is longer than 192K");
    const std::string shown = refused("bcast \x01" + std::string(1000, 'x'));
    EXPECT_LT(shown.size(), 200u);
    EXPECT_EQ(shown.find('\x01'), std::string::npos);
}

TEST(Selection, TheLongestTableFitsWhenWritten) {
    const SelectionRange widest{UINT64_MAX - 2, UINT64_MAX - 1};
    Selection selection;
    for (size_t i = 0; i < kSelectedCount; ++i)
        selection.rules[i].assign(kSelectionRulesMax, {widest,
                                                       widest,
                                                       widest,
                                                       {1, 1},
                                                       {1, 1},
                                                       {0, 0},
                                                       {1, 1},
                                                       widest,
                                                       carriers_of(static_cast<Selected>(i)).back()});
    EXPECT_GT(format_selection(selection).size(), kSelectionBytesMax / 2) << "or it tests nothing";
    EXPECT_LE(format_selection(selection).size(), kSelectionBytesMax);
}

// Splits the space at random: what comes out is complete; with one rule taken out or put in twice it is not.
std::vector<SelectionRule> random_rules(std::mt19937* random, bool with_bytes) {
    const auto below = [&](uint64_t bound) { return static_cast<uint64_t>((*random)()) % bound; };
    std::vector<SelectionRule> rules(1);
    for (uint64_t cuts = below(20); cuts > 0; --cuts) {
        const size_t at = below(rules.size());
        SelectionRule& one = rules[at];
        SelectionRule other = one;
        const auto axis = kAxes[below(with_bytes ? std::size(kAxes) : std::size(kAxes) - 1)].range;
        if (axis == &SelectionRule::network) {  // a rule names one, or none
            if (one.network != SelectionRule{}.network) continue;
            for (const uint64_t network : {kNetworkTcp, kNetworkUcx}) {
                other.network = {network, network};
                rules.push_back(other);
            }
            rules[at].network = {kNetworkNone, kNetworkNone};
            continue;
        }
        const uint64_t from = (one.*axis).first;
        const bool is_wide = axis == &SelectionRule::bytes || axis == &SelectionRule::rate;
        uint64_t cut = from + 1 + below(is_wide ? uint64_t{1} << below(30) : 6);
        if (axis == &SelectionRule::rate && from == kRateUnknown) cut = 1;  // no range begins there
        if (cut > (one.*axis).last) continue;
        (one.*axis).last = cut - 1;
        (other.*axis).first = cut;
        other.carrier = static_cast<Carrier>(below(3));
        rules.push_back(other);
    }
    std::shuffle(rules.begin(), rules.end(), *random);
    return rules;
}

TEST(Selection, RandomTablesAreReadExactly) {
    std::mt19937 random(20240601);
    for (int round = 0; round < 300; ++round) {
        const auto collective = static_cast<Selected>(random() % kSelectedCount);
        const size_t i = static_cast<size_t>(collective);
        const std::vector<SelectionRule> rules = random_rules(&random, has_bytes(collective));
        const Selection selection = parsed(format_rules(collective, rules));
        EXPECT_EQ(selection.rules[i], rules);
        expect_points_covered(selection);
        for (const SelectionRule& rule : rules)
            EXPECT_EQ(choose(selection, collective,
                             {rule.ppn.last, rule.nodes.first, rule.bytes.last, rule.crowded.last,
                              rule.form.last, rule.network.first, rule.spare.last, rule.rate.last}),
                      rule.carrier);
        std::vector<SelectionRule> twice = rules, without = rules;
        twice.push_back(rules[random() % rules.size()]);
        EXPECT_NE(refused(format_rules(collective, twice)).find("never holds"), std::string::npos);
        if (rules.size() == 1) continue;
        without.erase(without.begin() + static_cast<ptrdiff_t>(random() % rules.size()));
        EXPECT_NE(refused(format_rules(collective, without)).find("has no rule"), std::string::npos);
    }
}

// Calls of these sizes on one communicator, one after the other: each must fall under the rule that it falls
// under by itself.
void expect_no_history(const Selection& selection, Selected collective, SelectionPoint point,
                       const std::vector<uint64_t>& sizes) {
    RememberedRule last;
    for (const uint64_t bytes : sizes) {
        point.bytes = bytes;
        const SelectionRule* rule = last.find(bytes);
        if (!rule) {
            const RuleWithin found = find_rule_within(selection, collective, point);
            ASSERT_NE(found.rule, nullptr);
            ASSERT_TRUE(found.bytes.contains(bytes)) << bytes;
            last.remember(found);
            rule = found.rule;
            EXPECT_EQ(last.find(bytes), rule) << "a call of the same size looks it up again";
        }
        EXPECT_EQ(rule, find_rule(selection, collective, point)) << bytes << " bytes\n"
                                                                 << format_selection(selection);
    }
}

TEST(RememberedRule, IsTheOneOfTheCallWhateverCameBefore) {
    // Between machines that TCP joins, the MPI has broadcasts of less than 32 KiB, by a rule before the one
    // that gives 8 KiB and more to direct.
    expect_no_history(built_in_selection(), Selected::kBcast,
                      {1, 2, 0, 0, kFormBlocking, kNetworkTcp, 0, 1000},
                      {100 << 10, 16 << 10, (32 << 10) - 1, 32 << 10, 0, 100 << 10, 4096, 8192});
    const Selection overlapping = parsed(
        "bcast bytes 4K-64K mpi\n"
        "bcast nodes 1 bytes 1M-2M mpi\n"
        "bcast nodes 2- bytes 32K-128K staged-flat\n"
        "bcast direct\n");
    expect_no_history(
        overlapping, Selected::kBcast, {1, 2, 0},
        {UINT64_MAX, 4096, 65535, 65536, 131071, 131072, 0, 4095, 4096, 1 << 20, 100000, 32768});
}

TEST(RememberedRule, IsFoundAgainWhereNoRuleBeforeItHolds) {
    const Selection selection = parsed("bcast bytes 4K-64K mpi\nbcast bytes 1M-2M mpi\nbcast direct\n");
    RememberedRule last;
    EXPECT_EQ(last.find(0), nullptr);
    last.remember(find_rule_within(selection, Selected::kBcast, {1, 1, 100000}));
    EXPECT_NE(last.find(100000), nullptr);
    EXPECT_EQ(last.find(65535), nullptr);
    EXPECT_NE(last.find(65536), nullptr);
    EXPECT_NE(last.find((1 << 20) - 1), nullptr);
    EXPECT_EQ(last.find(1 << 20), nullptr);
    EXPECT_EQ(last.find(UINT64_MAX), nullptr);
}

TEST(RememberedRule, OfRandomTables) {
    std::mt19937 random(41);
    for (int round = 0; round < 300; ++round) {
        const auto below = [&](uint64_t bound) { return static_cast<uint64_t>(random()) % bound; };
        Selection selection;
        auto& rules = selection.rules[static_cast<size_t>(Selected::kBcast)];
        for (uint64_t count = below(6); count > 0; --count) {
            SelectionRule rule;
            rule.bytes.first = below(40);
            rule.bytes.last = below(4) == 0 ? UINT64_MAX : rule.bytes.first + below(20);
            if (below(3) == 0) rule.nodes = {1 + below(2), 2};
            if (below(3) == 0) rule.form = {kFormBlocking, kFormBlocking};
            rules.push_back(rule);
        }
        rules.push_back({});
        std::vector<uint64_t> sizes;
        for (int i = 0; i < 100; ++i) sizes.push_back(below(10) == 0 ? UINT64_MAX - below(2) : below(64));
        expect_no_history(selection, Selected::kBcast, {1, 1 + below(3), 0, 0, below(2)}, sizes);
    }
}

TEST(SelectionFile, SaysWhatIsWrongWhere) {
    const std::string path = testing::TempDir() + "longshore_selection_test";
    std::string error;
    Selection selection = built_in_selection();
    std::remove(path.c_str());
    EXPECT_FALSE(load_selection(path, &selection, &error));
    EXPECT_EQ(error, path + ": No such file or directory");
    EXPECT_FALSE(load_selection("/", &selection, &error));
    EXPECT_EQ(error, "/: Is a directory");
    std::ofstream(path) << "bcast mpi\nbcast mpi\n";
    EXPECT_FALSE(load_selection(path, &selection, &error));
    EXPECT_EQ(
        error,
        path + ":2:1: this rule never holds: the one of line 1 comes before it and holds wherever it would");
    EXPECT_EQ(selection, built_in_selection());
    std::ofstream(path) << kExample;
    EXPECT_TRUE(load_selection(path, &selection, &error));
    EXPECT_EQ(selection, parsed(kExample));
    std::ofstream(path) << std::string(2 * kSelectionBytesMax, '#');
    EXPECT_FALSE(load_selection(path, &selection, &error));
    std::remove(path.c_str());
}

}  // namespace
}  // namespace longshore
