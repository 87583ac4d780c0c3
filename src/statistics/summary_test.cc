// What the summary says in words: why a job did not gain more, what would change it, and which rank comes
// last.
#include "statistics/summary.h"

#include <gtest/gtest.h>

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

TEST(Summary, ProfileOfTheMpiAloneSaysSo) {
    Summary summary = job(0);
    summary.offload = false;
    const auto advice = [&] { return advice_on(summary).at(0); };
    EXPECT_EQ(
        advice(),
        "the job ran with plain MPI, a line at its beginning says why: this is a profile of the MPI alone");
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
    EXPECT_TRUE(
        says(summary, "rank 1 waited least, 1.000 s, another 4.000 s: it seems to come last (estimated)"));
    // Tests wait for nobody.
    summary.ranks[1].testing_ns = 9 * kSecondNs;
    EXPECT_EQ(latest_rank(summary), 1);
    // More than half as long as the other; or too short to matter.
    summary.ranks[1].uncarried_ns = 3 * kSecondNs;
    EXPECT_EQ(latest_rank(summary), -1);
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

}  // namespace
}  // namespace longshore::statistics
