// Where service processes run, by what the ranks' bindings leave.
#include "service/placement.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace longshore {
namespace {

// A process that sleeps where it is bound, as long as this lives.
class Bound {
  public:
    explicit Bound(const std::vector<int>& cpus) {
        cpu_set_t set;
        CPU_ZERO(&set);
        for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (true) pause();
        }
        sched_setaffinity(pid_, sizeof set, &set);
    }
    ~Bound() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;
    pid_t pid() const { return pid_; }

  private:
    pid_t pid_;
};

class PlacementTest : public testing::Test {
  protected:
    void SetUp() override {
        cpus_ = reset_affinity();
        if (cpus_.size() < 2) GTEST_SKIP() << "one core";
        parameters_.machine_ranks = parameters_.rank_count = static_cast<uint16_t>(cpus_.size());
    }
    // As many ranks as cores.
    PlaceService place(const std::vector<int>& bound_to) {
        std::vector<std::unique_ptr<Bound>> ranks;
        std::vector<pid_t> pids;
        for (size_t i = 0; i < cpus_.size(); ++i) {
            ranks.push_back(std::make_unique<Bound>(bound_to));
            pids.push_back(ranks.back()->pid());
        }
        return place_services(parameters_, cpus_, pids)[0];
    }

    ServiceParameters parameters_;
    std::vector<int> cpus_;
};

TEST_F(PlacementTest, SpinsOnACoreThatNoRankMayUse) {
    const PlaceService place = this->place({cpus_.begin(), cpus_.end() - 1});
    EXPECT_TRUE(place.may_spin);
    EXPECT_FALSE(place.only_idle);
    EXPECT_EQ(place.core, cpus_.back());
}

TEST_F(PlacementTest, TakesIdleTimeWhereRanksMayUseAllCores) {
    const PlaceService place = this->place(cpus_);
    EXPECT_FALSE(place.may_spin);
    EXPECT_TRUE(place.only_idle);
    EXPECT_FALSE(place.crowded);
    EXPECT_EQ(place.core, -1);
}

// In the idle class it would get no core for what it has claimed.
TEST_F(PlacementTest, MoreRanksThanCoresLeaveNoIdleTime) {
    parameters_.rank_count = parameters_.machine_ranks = static_cast<uint16_t>(cpus_.size() + 1);
    const PlaceService place = this->place(cpus_);
    EXPECT_TRUE(place.only_idle);
    EXPECT_TRUE(place.crowded);
}

// Who stands in for ranks of a host sleeps.
TEST_F(PlacementTest, OnADpuAllCoresAreFree) {
    parameters_.host_agents = 1;
    const PlaceService place = this->place(cpus_);
    EXPECT_TRUE(place.may_spin);
    EXPECT_FALSE(place.only_idle);
    EXPECT_NE(place.core, -1);
}

TEST_F(PlacementTest, OfSeveralEmulatedNodesNoneKnowsWhatTheOthersRanksMayUse) {
    parameters_.machine_ranks = 2 * parameters_.rank_count;
    parameters_.node_count = 2;
    EXPECT_FALSE(place({cpus_.front()}).may_spin);
}

}  // namespace
}  // namespace longshore
