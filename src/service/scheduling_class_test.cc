#include "service/scheduling_class.h"

#include <gtest/gtest.h>

#include <vector>

namespace longshore {
namespace {

std::vector<bool> changes;
bool permitted = true;
bool change(bool raised) {
    if (permitted) changes.push_back(raised);
    return permitted;
}

struct SchedulingClassTest : testing::Test {
    void SetUp() override {
        changes.clear();
        permitted = true;
    }
    static bool nobody() { return false; }
    static bool somebody() { return true; }
    SchedulingClass own{&change};
};

TEST_F(SchedulingClassTest, WithACoreOfItsOwnNothingChanges) {
    own.set_place(false, true);
    own.hold([]() -> bool { throw "asked for nothing"; }, 1);
    own.let_go(2);
    EXPECT_TRUE(changes.empty());
    EXPECT_FALSE(own.only_idle());
}

TEST_F(SchedulingClassTest, ItIsRaisedWhileSomebodyWaitsForWhatItHolds) {
    own.set_place(true, false);
    own.hold(nobody, 1);
    EXPECT_TRUE(changes.empty());
    own.hold(somebody, 2);
    own.hold(somebody, 3);
    own.let_go(4);
    own.let_go(5);
    EXPECT_EQ(changes, (std::vector<bool>{true, false}));
}

TEST_F(SchedulingClassTest, NobodyWaitsAnyMore) {
    own.set_place(true, false);
    own.hold(somebody, 1);
    own.hold(nobody, 2);
    EXPECT_EQ(changes, (std::vector<bool>{true, false}));
}

TEST_F(SchedulingClassTest, InACrowdItIsRaisedForWhateverItHolds) {
    own.set_place(true, true);
    own.hold(nobody, 1);
    EXPECT_EQ(changes, std::vector<bool>{true});
}

TEST_F(SchedulingClassTest, SmallChunksShareAChange) {
    own.set_place(true, false);
    own.hold(somebody, 1'000'000);
    own.let_go_in_time(1'099'999);
    EXPECT_EQ(changes, std::vector<bool>{true});
    own.let_go_in_time(1'100'000);
    EXPECT_EQ(changes, (std::vector<bool>{true, false}));
}

TEST_F(SchedulingClassTest, WhereItIsNotPermittedItStaysAsItIs) {
    permitted = false;
    own.set_place(true, false);
    own.hold(somebody, 1);
    EXPECT_FALSE(own.only_idle());
    permitted = true;
    own.hold(somebody, 2);
    EXPECT_TRUE(changes.empty());
}

}  // namespace
}  // namespace longshore
