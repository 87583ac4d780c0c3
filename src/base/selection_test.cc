#include "base/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>

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

size_t count_rules(const Selection& selection, Selected collective, uint64_t ppn, uint64_t nodes,
                   uint64_t bytes, bool crowded) {
    const auto& rules = selection.rules[static_cast<size_t>(collective)];
    return static_cast<size_t>(std::count_if(rules.begin(), rules.end(), [&](const SelectionRule& rule) {
        return rule.ppn.contains(ppn) && rule.nodes.contains(nodes) && rule.bytes.contains(bytes) &&
               rule.crowded.contains(crowded);
    }));
}

// Every corner of every rule, and its neighbours.
void expect_each_point_covered_once(const Selection& selection) {
    for (size_t i = 0; i < kSelectedCount; ++i) {
        std::vector<uint64_t> axes[3] = {{1, UINT64_MAX}, {1, UINT64_MAX}, {0, UINT64_MAX}};
        for (const SelectionRule& rule : selection.rules[i]) {
            const SelectionRange ranges[3] = {rule.ppn, rule.nodes, rule.bytes};
            for (int axis = 0; axis < 3; ++axis)
                for (const uint64_t end : {ranges[axis].first, ranges[axis].last})
                    for (const uint64_t at : {end - 1, end, end + 1})
                        if (axis == 2 || at > 0) axes[axis].push_back(at);
        }
        for (auto& axis : axes) {
            std::sort(axis.begin(), axis.end());
            axis.erase(std::unique(axis.begin(), axis.end()), axis.end());
        }
        for (const uint64_t ppn : axes[0])
            for (const uint64_t nodes : axes[1])
                for (const uint64_t bytes : axes[2])
                    for (const bool crowded : {false, true})
                        ASSERT_EQ(
                            count_rules(selection, static_cast<Selected>(i), ppn, nodes, bytes, crowded), 1u)
                            << selected_name(static_cast<Selected>(i)) << " " << ppn << " " << nodes << " "
                            << bytes << " " << crowded;
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
    expect_each_point_covered_once(selection);
}

TEST(Selection, BuiltInTableLeavesSmallBlocksToTheMpi) {
    const Selection selection = built_in_selection();
    for (const auto collective :
         {Selected::kAlltoall, Selected::kAllgather, Selected::kGather, Selected::kScatter}) {
        for (const uint64_t ppn : {2, 3, 4, 8, 9, 32}) {
            const uint64_t small = 4096 * ppn, large = 32768 * ppn;
            EXPECT_EQ(choose(selection, collective, ppn, 1, small), kMpi) << ppn;
            EXPECT_EQ(choose(selection, collective, ppn, 1, large), kDirect) << ppn;
            EXPECT_EQ(choose(selection, collective, ppn, 1, small, true), kDirect) << ppn;
        }
    }
    EXPECT_EQ(choose(selection, Selected::kBcast, 2, 1, 4096), kMpi);
    EXPECT_EQ(choose(selection, Selected::kBcast, 2, 1, 8192), kDirect);
    EXPECT_EQ(choose(selection, Selected::kBcast, 2, 1, 1, true), kDirect);
    for (const auto collective :
         {Selected::kAlltoallv, Selected::kAllgatherv, Selected::kGatherv, Selected::kScatterv})
        EXPECT_EQ(choose(selection, collective, 2, 1, 0), kDirect);
}

TEST(Selection, CrowdedIsACondition) {
    const Selection selection = parsed(
        "bcast crowded yes nodes 2- mpi\nbcast crowded yes nodes 1 direct\n"
        "bcast crowded no staged-flat\n");
    EXPECT_EQ(choose(selection, Selected::kBcast, 1, 2, 1, true), kMpi);
    EXPECT_EQ(choose(selection, Selected::kBcast, 1, 1, 1, true), kDirect);
    EXPECT_EQ(choose(selection, Selected::kBcast, 1, 2, 1, false), kStaged);
    EXPECT_EQ(parsed(format_selection(selection)), selection);
    EXPECT_EQ(refused("bcast crowded no mpi"),
              "1:1: bcast has no rule for ppn 1, nodes 1, crowded yes, bytes 0-");
    EXPECT_EQ(refused("bcast mpi\nbcast crowded yes mpi"),
              "2:1: overlaps the rule of line 1, at ppn 1, nodes 1, crowded yes, 0 bytes");
    EXPECT_EQ(refused("bcast crowded 1 mpi"), "1:15: '1' is not valid: behind 'crowded' go yes or no");
}

TEST(Selection, Chooses) {
    const Selection selection = parsed(kExample);
    const auto bcast = [&](uint64_t ppn, uint64_t nodes, uint64_t bytes) {
        return choose(selection, Selected::kBcast, ppn, nodes, bytes);
    };
    EXPECT_EQ(bcast(8, 1, 1 << 20), kDirect);
    EXPECT_EQ(bcast(8, 2, 0), kMpi);
    EXPECT_EQ(bcast(1, 2, 65535), kMpi);
    EXPECT_EQ(bcast(1, 2, 65536), kStaged);
    EXPECT_EQ(bcast(4, 9, UINT64_MAX), kStaged);
    EXPECT_EQ(bcast(5, 9, (1 << 20) - 1), kStaged);
    EXPECT_EQ(bcast(5, 9, 1 << 20), kHierarchical);
    EXPECT_EQ(choose(selection, Selected::kAlltoallv, 1, 2, 0), kStaged);
    // Not in the text: as built in.
    EXPECT_EQ(selection.rules[0], built_in_selection().rules[0]);
    expect_each_point_covered_once(selection);
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
    EXPECT_EQ(format_rules(Selected::kGatherv, built_in_selection().rules[6]), "gatherv  direct\n");
    EXPECT_EQ(format_rules(Selected::kBcast, built_in_selection().rules[4]),
              "bcast  crowded no   bytes 0-8K  mpi\n"
              "bcast  crowded no   bytes 8K-   direct\n"
              "bcast  crowded yes              direct\n");
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

TEST(Selection, OverlapsSayWhere) {
    EXPECT_EQ(refused("bcast mpi\n  bcast mpi"),
              "2:3: overlaps the rule of line 1, at ppn 1, nodes 1, 0 bytes");
    EXPECT_EQ(refused("bcast bytes 4K- mpi\nbcast bytes 0-5000 mpi"),
              "2:1: overlaps the rule of line 1, at ppn 1, nodes 1, 4K bytes");
    EXPECT_EQ(refused("bcast ppn 1-4 mpi\n#\nbcast ppn 5- nodes 1-2 mpi\nbcast ppn 5- nodes 2- direct"),
              "4:1: overlaps the rule of line 3, at ppn 5, nodes 2, 0 bytes");
    EXPECT_EQ(refused("alltoallv nodes 1-2 mpi\nalltoallv nodes 2- mpi"),
              "2:1: overlaps the rule of line 1, at ppn 1, nodes 2, 0 bytes");
}

TEST(Selection, TextAndRulesAreBounded) {
    std::string many;
    for (size_t i = 0; i < kSelectionRulesMax; ++i)
        many += "bcast nodes " + std::to_string(i + 1) + (i + 1 < kSelectionRulesMax ? "" : "-") + " mpi\n";
    EXPECT_EQ(parsed(many).rules[static_cast<size_t>(Selected::kBcast)].size(), kSelectionRulesMax);
    EXPECT_EQ(refused(many + "bcast mpi"), "65:1: bcast has more than 64 rules");
    EXPECT_EQ(refused(std::string(kSelectionBytesMax + 1, '\n')), "1:1: the text is longer than 128K");
    const std::string shown = refused("bcast \x01" + std::string(1000, 'x'));
    EXPECT_LT(shown.size(), 200u);
    EXPECT_EQ(shown.find('\x01'), std::string::npos);
}

TEST(Selection, TheLongestTableFitsWhenWritten) {
    const SelectionRange widest{UINT64_MAX - 2, UINT64_MAX - 1};
    Selection selection;
    for (size_t i = 0; i < kSelectedCount; ++i)
        selection.rules[i].assign(
            kSelectionRulesMax,
            {widest, widest, widest, {1, 1}, carriers_of(static_cast<Selected>(i)).back()});
    EXPECT_GT(format_selection(selection).size(), kSelectionBytesMax / 2) << "or it tests nothing";
    EXPECT_LE(format_selection(selection).size(), kSelectionBytesMax);
}

// Splits the space at random: what comes out is complete; with one rule taken out or put in twice it is not.
std::vector<SelectionRule> random_rules(std::mt19937* random, bool with_bytes) {
    const auto below = [&](uint64_t bound) { return static_cast<uint64_t>((*random)()) % bound; };
    std::vector<SelectionRule> rules(1);
    for (uint64_t cuts = below(12); cuts > 0; --cuts) {
        SelectionRule& one = rules[below(rules.size())];
        SelectionRule other = one;
        SelectionRange SelectionRule::*const axes[] = {&SelectionRule::ppn, &SelectionRule::nodes,
                                                       &SelectionRule::crowded, &SelectionRule::bytes};
        const auto axis = axes[below(with_bytes ? 4 : 3)];
        const uint64_t from = (one.*axis).first;
        const uint64_t cut = from + 1 + below(axis == &SelectionRule::bytes ? uint64_t{1} << below(30) : 6);
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
        expect_each_point_covered_once(selection);
        for (const SelectionRule& rule : rules)
            EXPECT_EQ(choose(selection, collective, rule.ppn.last, rule.nodes.first, rule.bytes.last,
                             rule.crowded.last != 0),
                      rule.carrier);
        std::vector<SelectionRule> twice = rules, without = rules;
        twice.push_back(rules[random() % rules.size()]);
        EXPECT_NE(refused(format_rules(collective, twice)).find("overlaps"), std::string::npos);
        if (rules.size() == 1) continue;
        without.erase(without.begin() + static_cast<ptrdiff_t>(random() % rules.size()));
        EXPECT_NE(refused(format_rules(collective, without)).find("has no rule"), std::string::npos);
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
    EXPECT_EQ(error, path + ":2:1: overlaps the rule of line 1, at ppn 1, nodes 1, 0 bytes");
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
