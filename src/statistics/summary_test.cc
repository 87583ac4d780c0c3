// What the summary says in words: why a job did not gain more, what would change it, and which rank comes
// last.
#include "statistics/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace longshore::statistics {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr Call kCall{Family::kAlltoall, Form::kNonblocking};

uint64_t& time_of_call(CallCounts& counts, CallTime kind) {
    return counts.time_ns[static_cast<int>(kind)];
}

// Two ranks, ten seconds, 100 offloaded calls that moved 100 MB: `by_service` of them by service processes,
// and of these `waited` while ranks waited.
Summary job(uint64_t by_service_mb, uint64_t waited_mb = 0) {
    Summary summary;
    summary.size = 2;
    summary.offload = true;
    summary.place.spare = 1;
    summary.wall_ns = 10 * kSecondNs;
    summary.ranks.resize(2);
    CallCounts& counts = summary.counts.call[kCall.index()];
    counts.calls = counts.offloaded = 100;
    counts.bytes = 100'000'000;
    counts.by_service = by_service_mb * 1'000'000;
    counts.by_service_waited = waited_mb * 1'000'000;
    counts.by_rank = counts.bytes - counts.by_service;
    time_of_call(counts, CallTime::kBetween) = 2 * kSecondNs;
    return summary;
}

// The text without its line breaks.
std::string in_one_line(const Summary& summary) {
    std::string text = summary_text(summary);
    for (size_t at; (at = text.find("\nlongshore:   ")) != text.npos;) text.replace(at, 14, " ");
    return text;
}

bool says(const Summary& summary, const std::string& words) {
    return in_one_line(summary).find(words) != std::string::npos;
}

TEST(Summary, JobThatHidesItsBytesIsLeftAlone) {
    EXPECT_TRUE(advice_on(job(90)).empty()) << advice_on(job(90))[0];
}

TEST(Summary, ServiceProcessesThatMoveNextToNothingAreExplained) {
    Summary summary = job(4);
    summary.place.spare = 0;
    ASSERT_EQ(advice_on(summary).size(), 1u);
    EXPECT_NE(advice_on(summary)[0].find("moved 4.0 %"), std::string::npos);
    EXPECT_NE(advice_on(summary)[0].find("no core is spare; start one rank less on each node"),
              std::string::npos);

    summary.place.spare = 1;
    EXPECT_NE(advice_on(summary)[0].find("before service processes have begun"), std::string::npos);
    time_of_call(summary.counts.call[kCall.index()], CallTime::kWaiting) = 3 * kSecondNs;
    EXPECT_NE(advice_on(summary)[0].find("wait later, after computing"), std::string::npos);

    EXPECT_FALSE(says(job(5), "service processes moved"));
}

TEST(Summary, BytesThatMoveInWaitsAreNotHidden) {
    ASSERT_EQ(advice_on(job(90, 75)).size(), 1u);
    EXPECT_NE(advice_on(job(90, 75))[0].find("little was hidden"), std::string::npos);
    EXPECT_TRUE(advice_on(job(90, 65)).empty());
    Summary summary = job(90, 75);
    summary.place.spare = 0;
    ASSERT_EQ(advice_on(summary).size(), 1u);
    EXPECT_NE(advice_on(summary)[0].find("no core is spare"), std::string::npos);
}

TEST(Summary, CallsLeftToTheMpiHaveAReasonAndARemedy) {
    Summary summary = job(90);
    uint64_t* const reasons = summary.counts.call[kCall.index()].reasons;
    reasons[static_cast<int>(Reason::kUnseen)] = 7;
    reasons[static_cast<int>(Reason::kOneRank)] = 3;  // nothing to be done about these
    ASSERT_EQ(advice_on(summary).size(), 1u);
    EXPECT_NE(advice_on(summary)[0].find("7 calls were left to the MPI"), std::string::npos);
    EXPECT_NE(advice_on(summary)[0].find("MPI_Comm_split"), std::string::npos);
    EXPECT_TRUE(says(summary, "left to MPI: 3 one rank, 7 communicator not seen"));
}

TEST(Summary, AnAllocatorWhoseBlocksAreNotSharedIsNamedWhereItCostsSomething) {
    Summary summary = job(90);
    summary.memory.malloc_not_shared = 2;
    summary.why_not_shared = "the program brings an allocator of its own";
    summary.memory.mapped = 50'000'000;
    summary.memory.peer_copied = 20'000'000;
    summary.services.resize(1);
    summary.services[0].bytes_peer_copied = 30'000'000;
    EXPECT_EQ(advice_on(summary),
              std::vector<std::string>{
                  "blocks of malloc are not shared on 2 ranks, since the program brings an allocator of its "
                  "own: 50 % of the bytes that were copied on nodes went by way of the system, at about a "
                  "third of the speed; remove that cause, or have MPI_Alloc_mem give the buffers of "
                  "collectives"});
    summary.services[0].bytes_mapped = 500'000'000;
    EXPECT_TRUE(advice_on(summary).empty());
    summary.services[0].bytes_mapped = 0;
    summary.memory.malloc_not_shared = 0;  // its buffers are static data, for one
    EXPECT_TRUE(advice_on(summary).empty());
}

TEST(Summary, ProfileOfTheMpiAloneSaysSo) {
    Summary summary = job(0);
    summary.offload = false;
    const auto advice = [&] { return advice_on(summary).at(0); };
    EXPECT_EQ(
        advice(),
        "the job was left to its MPI, a line at its beginning says why: this is a profile of the MPI alone");
    summary.wanted = false;
    EXPECT_EQ(advice(), "offload was off: this is a profile of the MPI alone");
}

TEST(Summary, AJobOfOneRankIsNotToldThatOffloadWasOff) {
    Summary summary = job(0);
    summary.offload = false;
    summary.size = 1;
    EXPECT_EQ(advice_on(summary),
              std::vector<std::string>{"the job has one rank: this is a profile of the MPI alone"});
    EXPECT_TRUE(says(summary, "longshore: 1 rank, 10.000 s from MPI_Init"));
    summary.launched = 4;
    EXPECT_EQ(
        advice_on(summary),
        std::vector<std::string>{"the job has one rank of 4 processes: their launcher seems to be that of "
                                 "another MPI: this is a profile of the MPI alone"});
}

TEST(Summary, RankThatWaitsLeastComesLast) {
    Summary summary = job(90);
    summary.ranks[0].waiting_ns = 4 * kSecondNs;
    summary.ranks[1].uncarried_ns = 1 * kSecondNs;
    EXPECT_EQ(latest_rank(summary), 1);
    EXPECT_TRUE(says(summary,
                     "rank 1 waited least, 1.000 s, another 4.000 s: it seems to come last, by 3.000 s in "
                     "all (estimated)"));
    EXPECT_NE(summary_json(summary).find("\"latest_rank_s\": 3.000000,"), std::string::npos);
    // Tests wait for nobody.
    summary.ranks[1].testing_ns = 9 * kSecondNs;
    EXPECT_EQ(latest_rank(summary), 1);
    // More than half as long as the other; or too short to matter.
    summary.ranks[1].uncarried_ns = 3 * kSecondNs;
    EXPECT_EQ(latest_rank(summary), -1);
    EXPECT_EQ(latest_rank_ns(summary), 0u);
    summary.ranks[0].waiting_ns = kSecondNs / 20;
    summary.ranks[1].uncarried_ns = 0;
    EXPECT_EQ(latest_rank(summary), -1);
}

TEST(Summary, TimeInTestsIsTimeInTheMpi) {
    Summary summary = job(90);
    const double before = share_in_mpi(summary);
    time_of_call(summary.counts.call[kCall.index()], CallTime::kTesting) = 4 * kSecondNs;
    EXPECT_NEAR(share_in_mpi(summary) - before, 0.2, 1e-6);
    EXPECT_TRUE(says(summary, "of betw., 2.000 s of each rank in tests"));
    summary.ranks[0].mpi_tests_ns = 2 * kSecondNs;
    EXPECT_NEAR(share_in_mpi(summary) - before, 0.3, 1e-6);
    EXPECT_TRUE(says(summary, "tests of requests of the MPI: 1.000 s of each rank"));
    // Of a hundredth of the time there is no line.
    time_of_call(summary.counts.call[kCall.index()], CallTime::kTesting) = kSecondNs / 5;
    EXPECT_FALSE(says(summary, "of betw."));
}

TEST(Summary, OtherCallsAreNamedFromAHundredthOfTheTimeOn) {
    Summary summary = job(90);
    summary.others.calls[static_cast<int>(Other::kAllreduce)] = 12;
    summary.others.time_ns[static_cast<int>(Other::kAllreduce)] = 4 * kSecondNs;
    summary.others.time_ns[static_cast<int>(Other::kSend)] = kSecondNs / 5;
    const std::string text = summary_text(summary);
    EXPECT_NE(text.find("MPI_Allreduce"), std::string::npos) << text;
    EXPECT_TRUE(says(summary, "collectives that Longshore does not carry: MPI_Allreduce"));
    EXPECT_EQ(text.find("MPI_Send"), std::string::npos) << text;
}

TEST(Summary, AProgramWithoutCallsThatAreCarriedIsToldThatItGainsNothing) {
    Summary summary = job(90);
    summary.counts = {};
    EXPECT_TRUE(says(summary,
                     "nothing was offloaded, and nothing can be gained by offloading today: the "
                     "program calls none of the collectives that Longshore carries"));
    EXPECT_FALSE(says(summary, "0 of 0")) << summary_text(summary);
    const auto made = [&](Other other, uint64_t calls, uint64_t ns) {
        summary.others.calls[static_cast<int>(other)] = calls;
        summary.others.time_ns[static_cast<int>(other)] = ns;
    };
    made(Other::kSend, 8, 9 * kSecondNs);  // not collective
    made(Other::kBarrier, 1, 0);
    made(Other::kAllreduce, 800, 4 * kSecondNs);
    EXPECT_TRUE(
        says(summary,
             "its collectives are MPI_Allreduce (800 calls, 2.000 s of each rank, 20.0 % of the time) "
             "and MPI_Barrier (1 call, 0.000 s of each rank, 0.0 % of the time), which the MPI serves"))
        << summary_text(summary);
    made(Other::kReduce, 2, kSecondNs);
    made(Other::kScan, 2, kSecondNs / 2);
    EXPECT_TRUE(
        says(summary, "MPI_Scan (2 calls, 0.250 s of each rank, 2.5 % of the time) and 1 more, which"))
        << summary_text(summary);
    std::istringstream lines(summary_text(summary));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    // Of one whose calls the table of rules gives to the MPI the reasons are said.
    summary.counts.call[kCall.index()].calls = 4;
    EXPECT_FALSE(says(summary, "nothing can be gained"));
    EXPECT_TRUE(says(summary, "0 of 4 collective calls offloaded"));
}

TEST(Summary, LargestFiguresKeepToTheirColumns) {
    Summary summary = job(90);
    CallCounts& counts = summary.counts.call[kCall.index()];
    counts.calls = counts.offloaded = UINT64_MAX / 4;
    counts.bytes = counts.by_rank = UINT64_MAX / 2;
    for (uint64_t& ns : counts.time_ns) ns = UINT64_MAX / 8;
    summary.wall_ns = UINT64_MAX / 4;
    std::istringstream lines(summary_text(summary));
    size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
        EXPECT_LE(line.size(), 80u) << line;
        EXPECT_TRUE(line.starts_with("longshore: ")) << line;
    }
    EXPECT_GT(count, 5u);
}

// All tables at their longest, every reason, packing, files and waits at once, of a job that was interrupted
// or not.
Summary longest_job() {
    Summary summary = job(1);
    summary.size = 512;
    summary.ranks.resize(512);
    summary.ranks[0].waiting_ns = 4 * kSecondNs;
    summary.ranks[0].mpi_waits_ns = 400 * kSecondNs;
    for (int i = 0; i < kCallCount; ++i) {
        CallCounts& counts = summary.counts.call[i];
        counts = job(1).counts.call[kCall.index()];
        time_of_call(counts, CallTime::kTesting) = 100 * kSecondNs;
        for (uint64_t& count : counts.reasons) count = 1'000'000'000'000;
        for (uint64_t cells = 0; cells < 2; ++cells)
            summary.at_once.push_back({static_cast<uint32_t>(i), 0, 1, 1, 1'000'000'000, 1'000'000'000});
    }
    for (const char* name : {"", "a grid of which the name is long", "b", "c"}) {
        CommRow row{};
        strncpy(row.name, name, sizeof row.name - 1);
        row.ranks = 512;
        for (CommCounts& counts : row.call) counts.calls = counts.bytes = 1'000'000'000'000;
        for (CommCounts& counts : row.call)
            for (uint64_t& ns : counts.time_ns) ns = 1'000'000'000'000'000'000;
        summary.comms.push_back(row);
    }
    for (int i = 0; i < kOtherCount; ++i) {
        summary.others.calls[i] = 1'000'000'000'000;
        summary.others.time_ns[i] = 1000 * kSecondNs;
    }
    summary.packed.packed_bytes = summary.packed.unpacked_bytes = summary.packed.device_bytes =
        1'000'000'000'000'000;
    summary.files.wanted = true;
    for (const char* reason : {"opened to be read and written", "of a kind that is not followed", "no room"})
        summary.files.passed.emplace_back(reason, 1'000'000'000'000);
    return summary;
}

TEST(Summary, LongestTextFitsAScreen) {
    for (const bool interrupted : {false, true}) {
        Summary summary = longest_job();
        for (int rank = 0; interrupted && rank < 500; ++rank)
            summary.ends.push_back({rank, kSecondNs, 1, kSecondNs, false});
        const std::string text = summary_text(summary);
        std::istringstream lines(text);
        size_t count = 0;
        for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
        EXPECT_LE(count, 40u) << text;
        EXPECT_NE(text.find("more calls: --stats FILE has all"), std::string::npos) << text;
    }
}

// As of a program with ten collectives on two communicators and four other calls.
TEST(Summary, AFewTablesLoseRowsAlike) {
    Summary summary = job(90);
    for (int i = 0; i < 10; ++i) summary.counts.call[i] = summary.counts.call[kCall.index()];
    for (const char* name : {"row", "column"}) {
        CommRow row{};
        strncpy(row.name, name, sizeof row.name - 1);
        for (int i = 0; i < 10; ++i) row.call[i].calls = 1;
        summary.comms.push_back(row);
    }
    for (int i = 0; i < 4; ++i) summary.others.time_ns[i] = kSecondNs;
    const std::string text = summary_text(summary);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40) << text;
    EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 36) << text;
    EXPECT_NE(text.find("... and 4 more calls: --stats FILE has all"), std::string::npos) << text;
    EXPECT_NE(text.find("... and 13 more by communicator: --stats FILE has all"), std::string::npos) << text;
    // No head touches the next.
    EXPECT_NE(text.find(" betw. in MPI\n"), std::string::npos) << text;
}

TEST(Summary, WhereThereIsRoomTablesHaveEightRows) {
    Summary summary = job(90);
    for (int i = 0; i < 9; ++i) summary.counts.call[i] = summary.counts.call[kCall.index()];
    const std::string text = summary_text(summary);
    size_t rows = 0;
    for (size_t at = 0; (at = text.find("longshore: MPI_", at)) != text.npos; ++at) ++rows;
    EXPECT_EQ(rows, 16u) << text;
}

}  // namespace
}  // namespace longshore::statistics
