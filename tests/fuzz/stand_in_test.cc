// What a stand-in on a DPU does with a rank that says what no rank says: cases that were found by
// fuzz_session, or could have been.
#include "dpu/card/stand_in.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "played_host.h"

namespace {

using namespace longshore::fuzz;

// A rank alone in its job, which says these words one by one. Returns the exit status of its stand-in.
class Session {
  public:
    Session() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        near_ = Fd(ends[0]);
        rank_ = SessionStream(Fd(ends[1]), 5);
        SessionExchange all;
        all.bytes.resize(kExchangedBytes);
        rank_.send(SessionKind::kExchanged, all);
        played_.go_on = [this] { go_on(); };
        played_.leave = [this] { rank_.close(); };
        host = &played_;
    }
    ~Session() {
        for (Group* group : played_.groups) delete group;
        for (Operation* operation : played_.operations) delete operation;
    }
    template <class Message>
    void says(SessionKind kind, const Message& message) {
        words_.push_back([this, kind, message] { rank_.send(kind, message); });
    }
    int run() {
        SessionHello hello;
        hello.size = 1;
        hello.copies = copies_;
        return run_stand_in(SessionStream(std::move(near_), 5), hello, Fd(), StandInOptions{});
    }
    Host& played() { return played_; }
    void cannot_copy() { copies_ = false; }

  private:
    void go_on() {
        if (said_ == words_.size()) return rank_.close();
        words_[said_++]();
    }
    Host played_;
    Fd near_;
    SessionStream rank_;
    std::vector<std::function<void()>> words_;
    size_t said_ = 0;
    bool copies_ = true;
};

SessionGroup group_of_one() {
    SessionGroup group;
    group.id = 1;
    group.size = 1;
    return group;
}
// A broadcast of nothing.
SessionPost post_of_nothing() {
    SessionPost post;
    post.group = 1;
    post.collective = static_cast<uint8_t>(Collective::kBcast);
    return post;
}

TEST(StandIn, APostToItsGroupIsPosted) {
    Session session;
    session.says(SessionKind::kGroupStart, group_of_one());
    SessionExchange all;
    all.id = 1;
    all.bytes.resize(kExchangedBytes);
    session.says(SessionKind::kExchanged, all);
    session.says(SessionKind::kPost, post_of_nothing());
    EXPECT_EQ(session.run(), 0);
    EXPECT_TRUE(session.played().posted);
}

// --- copies that the rank makes

class Copies : public testing::Test {
  protected:
    Copies() {
        session_.played().copies_of_an_operation = [] { return 2u; };
        session_.played().tests_of_an_operation = [] { return 100; };
        session_.says(SessionKind::kGroupStart, group_of_one());
        SessionExchange all;
        all.id = 1;
        all.bytes.resize(kExchangedBytes);
        session_.says(SessionKind::kExchanged, all);
    }
    void posts(SessionCopies copies) {
        SessionPost post = post_of_nothing();
        post.copies = copies;
        session_.says(SessionKind::kPost, post);
    }
    Session session_;
};

TEST_F(Copies, AreHandedOverAndAnswered) {
    posts(SessionCopies::kInCall);
    session_.says(SessionKind::kCopied, SessionCopied{kHandedMax, true});
    session_.says(SessionKind::kCopied, SessionCopied{2 * kHandedMax + 1, false});
    EXPECT_EQ(session_.run(), 0);
    EXPECT_EQ(session_.played().copies_made, 2u);
    EXPECT_TRUE(session_.played().copies_out.empty());
}

TEST_F(Copies, OfARankThatDoesNotWaitAreNotHandedOver) {
    posts(SessionCopies::kAttended);
    EXPECT_EQ(session_.run(), 0);
    EXPECT_EQ(session_.played().copies_made, 0u);
}

TEST_F(Copies, OfARankThatWaitsAreHandedOver) {
    posts(SessionCopies::kAttended);
    session_.says(SessionKind::kAttend, SessionAttend{1, true});
    EXPECT_EQ(session_.run(), 0);
    EXPECT_EQ(session_.played().copies_made, 2u);
}

TEST_F(Copies, ThatNobodyWasHandedAreNotAnswered) {
    posts(SessionCopies::kInCall);
    session_.says(SessionKind::kCopied, SessionCopied{5 * kHandedMax, true});
    EXPECT_EQ(session_.run(), 1);
}

TEST_F(Copies, AreAnsweredOnce) {
    posts(SessionCopies::kInCall);
    session_.says(SessionKind::kCopied, SessionCopied{kHandedMax, true});
    session_.says(SessionKind::kCopied, SessionCopied{kHandedMax, true});
    EXPECT_EQ(session_.run(), 1);
}

TEST_F(Copies, AreNotForARankThatCannotReadTheOthers) {
    session_.cannot_copy();
    posts(SessionCopies::kInCall);
    EXPECT_EQ(session_.run(), 1);
    EXPECT_FALSE(session_.played().posted);
}

// There is nothing behind it.
TEST(StandIn, APostToAGroupThatCannotBeMadeEndsIt) {
    Session session;
    session.played().group_fails = [] { return true; };
    session.says(SessionKind::kGroupStart, group_of_one());
    session.says(SessionKind::kPost, post_of_nothing());
    EXPECT_EQ(session.run(), 1);
    EXPECT_FALSE(session.played().posted);
}

TEST(StandIn, APostToNoGroupEndsIt) {
    Session session;
    session.says(SessionKind::kPost, post_of_nothing());
    EXPECT_EQ(session.run(), 1);
}

TEST(StandIn, ARegionThatNobodyHasEndsIt) {
    for (const uint32_t region : {0u, kFarRegionsMax, UINT32_MAX}) {
        Session session;
        SessionOpened opened;
        opened.region = region;
        opened.bytes = 4096;
        opened.key.resize(8);
        session.says(SessionKind::kOpened, opened);
        EXPECT_EQ(session.run(), 1) << region;
    }
}

}  // namespace
