#include "tools/tune/stats.h"

#include <gtest/gtest.h>

namespace longshore::tools {
namespace {

Selection parsed(std::string_view text) {
    Selection selection = built_in_selection();
    SelectionError error;
    EXPECT_TRUE(parse_selection(text, &selection, &error)) << error.line << ": " << error.message << "\n"
                                                           << text;
    return selection;
}

const std::vector<SelectionRule>& rules_of(const Selection& selection, Selected collective) {
    return selection.rules[static_cast<size_t>(collective)];
}

WaitedCalls bcasts(uint64_t nodes, uint64_t ranks_per_node, uint64_t first, uint64_t last,
                   uint64_t calls = 100, uint64_t at_once = 100) {
    return {Selected::kBcast, nodes, ranks_per_node, {first, last}, calls, at_once};
}

TEST(TuneStats, NearlyAllOfEnoughCalls) {
    EXPECT_TRUE(are_blocking_in_effect(bcasts(1, 1, 0, 1, 20, 19)));
    EXPECT_FALSE(are_blocking_in_effect(bcasts(1, 1, 0, 1, 19, 19)));
    EXPECT_TRUE(are_blocking_in_effect(bcasts(1, 1, 0, 1, 1000, 950)));
    EXPECT_FALSE(are_blocking_in_effect(bcasts(1, 1, 0, 1, 1000, 949)));
    EXPECT_FALSE(are_blocking_in_effect(bcasts(1, 1, 0, 1, 0, 0)));
}

TEST(TuneStats, SuchCallsGetTheRulesOfBlockingOnes) {
    const Selection selection = parsed(
        "bcast form blocking bytes 0-64K mpi\n"
        "bcast form blocking bytes 64K- direct\n"
        "bcast form nonblocking staged-flat\n");
    const auto made = as_blocking(rules_of(selection, Selected::kBcast), bcasts(2, 4, 32768, 131071));
    EXPECT_EQ(format_rules(Selected::kBcast, made),
              "bcast  form nonblocking  ppn 4  nodes 2  bytes 32K-64K   mpi\n"
              "bcast  form nonblocking  ppn 4  nodes 2  bytes 64K-128K  direct\n"
              "bcast  form blocking                     bytes 0-64K     mpi\n"
              "bcast  form blocking                     bytes 64K-      direct\n"
              "bcast  form nonblocking                                  staged-flat\n");
}

TEST(TuneStats, NothingChangesWhereBothFormsHaveTheSame) {
    const Selection same = parsed("bcast bytes 0-8K mpi\nbcast direct\n");
    EXPECT_EQ(as_blocking(rules_of(same, Selected::kBcast), bcasts(2, 2, 4096, 8191)),
              rules_of(same, Selected::kBcast));
    // One size of two.
    const Selection selection = parsed(
        "bcast bytes 0-64K mpi\nbcast bytes 64K- form blocking direct\nbcast bytes 64K- form nonblocking "
        "mpi\n");
    EXPECT_EQ(as_blocking(rules_of(selection, Selected::kBcast), bcasts(2, 2, 4096, 8191)),
              rules_of(selection, Selected::kBcast));
}

// At random: inside, what blocking calls have; outside, nothing has changed; and the table stays whole.
TEST(TuneStats, EveryPointHasTheRuleThatItShould) {
    uint64_t state = 7;
    const auto below = [&](uint64_t bound) {
        return state = state * 6364136223846793005u + 1442695040888963407u, (state >> 33) % bound;
    };
    const Selection start = parsed(
        "bcast network none                        bytes 0-8K   mpi\n"
        "bcast network none                        bytes 8K-    direct\n"
        "bcast network ucx                                      direct\n"
        "bcast network tcp form blocking    rate unknown        mpi\n"
        "bcast network tcp form blocking    rate 0-2.5G  bytes 0-64K  direct\n"
        "bcast network tcp form blocking    rate 0-2.5G  bytes 64K- spare yes direct\n"
        "bcast network tcp form blocking    rate 0-2.5G  bytes 64K- spare no  mpi\n"
        "bcast network tcp form blocking    rate 2.5G-          mpi\n"
        "bcast network tcp form nonblocking nodes 1-2           staged-flat\n"
        "bcast network tcp form nonblocking nodes 3-            direct\n");
    for (int round = 0; round < 100; ++round) {
        Selection selection = start;
        auto& rules = selection.rules[static_cast<size_t>(Selected::kBcast)];
        std::vector<WaitedCalls> all;
        for (uint64_t n = 1 + below(3); n > 0; --n) {
            const uint64_t size_class = below(24);
            all.push_back(bcasts(1 + below(4), 1 + below(4), size_class == 0 ? 0 : uint64_t{1} << size_class,
                                 (uint64_t{2} << size_class) - 1));
            rules = as_blocking(rules, all.back());
        }
        ASSERT_LE(rules.size(), kSelectionRulesMax);
        EXPECT_EQ(parsed(format_selection(selection)), selection);
        for (int n = 0; n < 500; ++n) {
            SelectionPoint at = {1 + below(5), 1 + below(5),   below(uint64_t{1} << below(26)),
                                 below(2),     below(2),       below(3),
                                 below(2),     below(4) * 1500};
            const Carrier found = choose(selection, Selected::kBcast, at);
            for (const WaitedCalls& one : all)
                if (at.nodes == one.nodes && at.ppn == one.ranks_per_node && one.bytes.contains(at.bytes))
                    at.form = kFormBlocking;
            EXPECT_EQ(found, choose(start, Selected::kBcast, at));
        }
    }
}

TEST(TuneStats, WhatIsSaidOfEach) {
    Selection selection =
        parsed("alltoallv direct\nbcast form blocking mpi\nbcast form nonblocking direct\n");
    WaitedStatistics statistics;
    statistics.calls = {bcasts(2, 2, 1024, 2047, 30, 30),
                        bcasts(2, 2, 2048, 4095, 40, 20),
                        bcasts(1, 2, 0, 1, 9, 9),
                        {Selected::kAlltoallv, 1, 1, {}, 50, 50}};
    EXPECT_EQ(
        apply_waited(statistics, &selection),
        (std::vector<std::string>{
            "alltoallv, 1 node, 1 rank per node: 50 of 50 calls were waited for at once: the rules for "
            "blocking "
            "calls are the same",
            "bcast, 2 nodes, 2 ranks per node, 2K-4K bytes: 20 of 40 calls were waited for at once: not "
            "nearly "
            "all; they keep their rules",
            "bcast, 2 nodes, 2 ranks per node, 1K-2K bytes: 30 of 30 calls were waited for at once: they get "
            "the rules for blocking calls",
            "bcast, 1 node, 2 ranks per node, 0-2 bytes: 9 of 9 calls were waited for at once: too few to "
            "tell; "
            "they keep their rules"}));
    EXPECT_EQ(choose(selection, Selected::kBcast, {2, 2, 1024, 0, kFormNonblocking}), Carrier::kMpi);
    EXPECT_EQ(choose(selection, Selected::kBcast, {2, 2, 2048, 0, kFormNonblocking}), Carrier::kDirect);
    statistics.persistent[static_cast<size_t>(Selected::kBcast)] = true;
    const Selection before = selection =
        parsed("alltoallv direct\nbcast form blocking mpi\nbcast form nonblocking direct\n");
    EXPECT_NE(apply_waited(statistics, &selection)[2].find("persistent"), std::string::npos);
    EXPECT_EQ(selection, before);
}

TEST(TuneStats, NotMoreRulesThanThereMayBe) {
    Selection selection = parsed("bcast form blocking mpi\nbcast form nonblocking direct\n");
    WaitedStatistics statistics;
    for (uint64_t i = 1; i <= 80; ++i)
        statistics.calls.push_back(bcasts(2 * i, 2 * i, 1 << 10, (1 << 11) - 1));
    size_t left_out = 0;
    for (const std::string& line : apply_waited(statistics, &selection))
        left_out += line.find("more than 64 rules") != std::string::npos;
    EXPECT_GT(left_out, 0u);
    EXPECT_LT(left_out, 80u);
    EXPECT_EQ(parsed(format_selection(selection)), selection);
}

TEST(TuneStats, ReadsStatistics) {
    WaitedStatistics statistics;
    std::string error;
    ASSERT_TRUE(
        read_waited(R"({"collectives": {"MPI_Alltoallw_init": {}, "MPI_Ibcast": {}}, "waited_at_once": [
        {"call": "MPI_Ibcast", "collective": "bcast", "nodes": 2, "ranks_per_node": 3, "bytes_first": 4, "bytes_last": 7,
         "calls": 10, "at_once": 9},
        {"call": "MPI_Ialltoallv", "collective": "alltoallv", "nodes": 2, "ranks_per_node": 3, "calls": 1, "at_once": 1},
        {"call": "MPI_Ialltoallw", "collective": "alltoallv", "nodes": 2, "ranks_per_node": 3, "calls": 4, "at_once": 2}
        ]})",
                    &statistics, &error))
        << error;
    ASSERT_EQ(statistics.calls.size(), 2u);
    EXPECT_EQ(statistics.calls[0].bytes, (SelectionRange{4, 7}));
    EXPECT_EQ(statistics.calls[0].ranks_per_node, 3u);
    EXPECT_EQ(statistics.calls[0].at_once, 9u);
    EXPECT_EQ(statistics.calls[1].calls, 5u);
    EXPECT_EQ(statistics.calls[1].at_once, 3u);
    EXPECT_EQ(statistics.calls[1].bytes, SelectionRange{});
    EXPECT_TRUE(statistics.persistent[static_cast<size_t>(Selected::kAlltoallv)]);
    EXPECT_FALSE(statistics.persistent[static_cast<size_t>(Selected::kBcast)]);
    for (const char* bad : {"", "{}", "[]", "{\"collectives\": {}}", "x",
                            "{\"collectives\": {}, \"waited_at_once\": [{\"collective\": \"scan\"}]}",
                            "{\"collectives\": {}, \"waited_at_once\": [{\"collective\": \"bcast\"}]}",
                            R"({"collectives": {}, "waited_at_once": [{"collective": "bcast", "nodes": 0,
                                "ranks_per_node": 3, "bytes_first": 4, "bytes_last": 7, "calls": 1, "at_once": 1}]})",
                            R"({"collectives": {}, "waited_at_once": [{"collective": "bcast", "nodes": 1,
                                "ranks_per_node": 3, "bytes_first": 4, "bytes_last": 7, "calls": 1, "at_once": 2}]})"}) {
        error.clear();
        EXPECT_FALSE(read_waited(bad, &statistics, &error)) << bad;
        EXPECT_FALSE(error.empty()) << bad;
    }
}

}  // namespace
}  // namespace longshore::tools
