#include "service/time_book.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

TEST(TimeBook, ATurnIsBusyOrIdleAsAWhole) {
    TimeBook book;
    book.begin_turn(100);
    book.add_poll(5);
    book.add_action(true, 30);
    book.add_action(false, 7);
    book.end_turn(true, 150);
    EXPECT_EQ(book.times().busy_ns, 50u);
    EXPECT_EQ(book.times().copy_ns, 30u);
    EXPECT_EQ(book.times().network_ns, 12u);
    book.begin_turn(151);
    book.add_poll(5);
    book.end_turn(false, 160);
    EXPECT_EQ(book.times().idle_ns, 10u);
    EXPECT_EQ(book.times().network_ns, 12u) << "a poll of a turn without work is idle";
}

TEST(TimeBook, WorkInASleepIsBusy) {
    TimeBook book;
    book.begin_turn(100);
    book.add_sleep(100, 1100, 50);
    book.end_turn(false, 1110);
    EXPECT_EQ(book.times().sleeps, 1u);
    EXPECT_EQ(book.times().busy_ns, 50u);
    EXPECT_EQ(book.times().network_ns, 50u);
    EXPECT_EQ(book.times().idle_ns, 960u);
}

TEST(TimeBook, MoreWorkThanSleepLeavesNoIdleTime) {
    TimeBook book;
    book.begin_turn(100);
    book.add_sleep(100, 200, 150);
    book.end_turn(false, 200);
    EXPECT_EQ(book.times().idle_ns, 0u);
    EXPECT_EQ(book.times().busy_ns, 150u);
}

}  // namespace
}  // namespace longshore
