// How the host's MPI goes on while its ranks compute, in the timed simulator: with a progress thread, and in
// calls of MPI_Test.
#include <gtest/gtest.h>

#include "timed_jobs.h"

namespace longshore::timed {
namespace {

constexpr Time kStep = 200 * kNanosecond, kTest = 50 * kNanosecond, kWakeUp = 3 * kMicrosecond;
constexpr uint32_t kNodes = 6;

// The bytes take long, programs some time, and nothing is drawn at random.
Job job_of(HostProgress progress) {
    Job job = job_on(ideal(), kNodes, 1, 1, Collective::kAlltoallv);
    Machine& m = job.machine;
    m.mpi_send = m.mpi_receive = m.mpi_take = m.mpi_read = kStep;
    m.rank_test = kTest;
    m.mpi_thread_wake_up = kWakeUp;
    job.progress = progress;
    job.test_every = 20 * kMicrosecond;
    return job;
}

Time time_of(Job job, const char* algorithm, Time compute) {
    job.compute.assign(job.ranks(), compute);
    return simulate_host(job, *find_host_algorithm(algorithm)).latency.mean;
}

constexpr const char* kBoth[] = {"linear", "pairwise"};

// Without computing nobody is interrupted, and nobody tests.
TEST(TimedHostProgress, DoesNotChangeWhatWaitsAtOnce) {
    for (const char* algorithm : kBoth) {
        const Time in_calls = time_of(job_of(HostProgress::kInCalls), algorithm, 0);
        EXPECT_EQ(time_of(job_of(HostProgress::kThread), algorithm, 0), in_calls);
        EXPECT_EQ(time_of(job_of(HostProgress::kTests), algorithm, 0), in_calls);
    }
}

// All is hidden but what the core has to do, and a wake-up for each thing that comes, at most: of each
// message its note, its bytes, and the word that the own one was read.
TEST(TimedHostProgress, AThreadHidesAllButWhatItTakesOfTheCore) {
    for (const char* algorithm : kBoth) {
        const Job job = job_of(HostProgress::kThread);
        const Time compute = 10 * time_of(job, algorithm, 0);
        const Time together = time_of(job, algorithm, compute);
        constexpr Time kPeers = kNodes - 1;
        // Starting a send and a receive, a note taken and its read started, its end taken and told, a word
        // taken.
        constexpr Time kCore = kPeers * 7 * kStep;
        EXPECT_GE(together, compute + kCore) << algorithm;
        EXPECT_LE(together, compute + kCore + 3 * kPeers * kWakeUp + kTest) << algorithm;
    }
}

TEST(TimedHostProgress, ASlowThreadCostsItsWakeUps) {
    Job job = job_of(HostProgress::kThread);
    const Time compute = 10 * time_of(job, "pairwise", 0);
    job.machine.mpi_thread_wake_up = 0;
    const Time quick = time_of(job, "pairwise", compute);
    job.machine.mpi_thread_wake_up = kWakeUp;
    EXPECT_GE(time_of(job, "pairwise", compute), quick + (kNodes - 1) * kWakeUp);
}

// A step of an algorithm waits for the next test: seldom tests hide nothing, frequent ones most.
TEST(TimedHostProgress, TestsHideTheMoreTheOftenerTheyAre) {
    for (const char* algorithm : kBoth) {
        Job job = job_of(HostProgress::kTests);
        const Time alone = time_of(job, algorithm, 0), compute = 10 * alone;
        job.test_every = 2 * compute;
        EXPECT_EQ(time_of(job, algorithm, compute),
                  time_of(job_of(HostProgress::kInCalls), algorithm, compute));
        job.test_every = alone / 50;
        const Time often = time_of(job, algorithm, compute);
        EXPECT_LT(often, compute + alone / 2) << algorithm;
        job.test_every = compute / 3;
        EXPECT_GT(time_of(job, algorithm, compute), compute + kTest) << algorithm;
    }
}

// While something is missing each test costs its time; when all has come the program tests no more.
TEST(TimedHostProgress, TestsEndWhenAllHasCome) {
    Job job = job_of(HostProgress::kTests);
    const Time alone = time_of(job, "linear", 0);
    job.test_every = alone / 50;
    job.machine.rank_test = 0;
    const Time without = time_of(job, "linear", 10 * alone);
    const Time without_long = time_of(job, "linear", 20 * alone);
    job.machine.rank_test = kTest;
    EXPECT_GT(time_of(job, "linear", 10 * alone), without + kTest);
    EXPECT_EQ(time_of(job, "linear", 20 * alone) - time_of(job, "linear", 10 * alone),
              without_long - without);
}

TEST(TimedHostProgress, TestsNeedATimeBetweenThem) {
    Job job = job_of(HostProgress::kTests);
    job.test_every = 0;
    EXPECT_NE(refusal(job).find("--test-every"), std::string::npos);
}

// The numbers that do not fit are named with their options.
TEST(TimedJob, MoreServicesThanRanksAreRefusedByName) {
    Job job = job_of(HostProgress::kInCalls);
    job.ranks_per_node = 2;
    job.services = 4;
    EXPECT_NE(refusal(job).find("4 (--services)"), std::string::npos) << refusal(job);
    EXPECT_NE(refusal(job).find("2 (--ranks-per-node)"), std::string::npos);
}

}  // namespace
}  // namespace longshore::timed
