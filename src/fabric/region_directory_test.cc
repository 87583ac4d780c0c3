// Which regions are asked for, when, and what becomes of the reads that wait for them.
#include "fabric/region_directory.h"

#include <gtest/gtest.h>

#include <map>

namespace longshore {
namespace {

constexpr ServiceAddress kOwner{NodeId{1}, ServiceId{0}}, kOther{NodeId{1}, ServiceId{1}};
constexpr std::byte kDescriptor[3] = {std::byte{1}, std::byte{2}, std::byte{3}};

Region region(uint32_t number, ServiceAddress owner = kOwner, uint32_t generation = 1) {
    return {owner, {LocalRank{2}, RegionId{number}, generation}};
}

class Directory : public testing::Test {
  protected:
    static constexpr uint32_t kMax = 2;
    using Use = RegionDirectory::Use;
    Use begin(const Region& r, uint32_t read) {
        uint32_t place = 0;
        const Use use = directory.begin(r, read, &place);
        if (use == Use::kReady || use == Use::kHeld) places[read] = place;
        return use;
    }
    void end(uint32_t read) { directory.end(places.at(read)); }
    uint32_t asks() {
        uint32_t count = 0;
        for (Region r; directory.next_ask(&r); ++count) asked = r;
        return count;
    }
    uint32_t forgotten() {
        uint32_t count = 0;
        for (ImportHandle handle; directory.next_forgotten(&handle);) ++count;
        return count;
    }
    // All that were released; whether they may be read.
    std::map<uint32_t, bool> released() {
        std::map<uint32_t, bool> all;
        for (RegionDirectory::Released r; directory.next_released(&r);)
            EXPECT_TRUE(all.emplace(r.read, r.ok).second);
        return all;
    }
    void import(ImportHandle handle) {
        uint32_t place = 0;
        ASSERT_TRUE(directory.next_import(&place));
        EXPECT_EQ(directory[place].descriptor.size(), sizeof kDescriptor);
        directory.on_imported(place, handle);
    }
    // As read number `read`, which then has ended.
    void make_known(const Region& r, uint32_t read, ImportHandle handle) {
        ASSERT_EQ(begin(r, read), Use::kHeld);
        EXPECT_EQ(asks(), 1u);
        ASSERT_TRUE(directory.on_described(r, kDescriptor));
        import(handle);
        EXPECT_EQ(released(), (std::map<uint32_t, bool>{{read, true}}));
        EXPECT_EQ(directory[places.at(read)].handle, handle);
        end(read);
    }
    RegionDirectory directory{kMax};
    std::map<uint32_t, uint32_t> places;
    Region asked;
};

TEST_F(Directory, ARegionIsAskedForOnceAndReadByAllWhoWait) {
    EXPECT_EQ(begin(region(1), 10), Use::kHeld);
    EXPECT_EQ(begin(region(1), 11), Use::kHeld);
    EXPECT_EQ(asks(), 1u);
    EXPECT_EQ(asked, region(1));
    EXPECT_TRUE(directory.on_described(region(1), kDescriptor));
    EXPECT_FALSE(directory.on_described(region(1), kDescriptor))
        << "twice, as it may be if it is asked twice";
    import(7);
    EXPECT_EQ(released(), (std::map<uint32_t, bool>{{10, true}, {11, true}}));
    EXPECT_EQ(begin(region(1), 12), Use::kReady);
    EXPECT_EQ(directory[places[12]].handle, 7u);
    for (const uint32_t read : {10, 11, 12}) end(read);
    EXPECT_EQ(directory.counts().reads, 0u);
    EXPECT_EQ(asks() + forgotten(), 0u);
}

// The same region of the same rank, in another use of it or as told by another service process.
TEST_F(Directory, WhatIsNotTheSameIsAskedForAnew) {
    make_known(region(1), 1, 7);
    EXPECT_EQ(begin(region(1, kOwner, 3), 2), Use::kHeld);
    EXPECT_EQ(begin(region(1, kOther), 3), Use::kHeld);
    EXPECT_EQ(asks(), 2u);
    EXPECT_FALSE(directory.on_described(region(2), kDescriptor)) << "nobody asked for that";
}

TEST_F(Directory, TheOneUsedLongestAgoMakesRoom) {
    make_known(region(1), 1, 7);
    make_known(region(2), 2, 8);
    ASSERT_EQ(begin(region(1), 3), Use::kReady);
    end(3);
    ASSERT_EQ(begin(region(3), 4), Use::kHeld);
    ImportHandle forgotten = 0;
    ASSERT_TRUE(directory.next_forgotten(&forgotten));
    EXPECT_EQ(forgotten, 8u);
    EXPECT_EQ(directory.counts().evicted, 1u);
    EXPECT_EQ(begin(region(1), 5), Use::kReady);
    EXPECT_EQ(begin(region(2), 6), Use::kFull) << "both are being read, or waited for";
    end(5);
    EXPECT_EQ(begin(region(2), 6), Use::kHeld);
}

TEST_F(Directory, ARegionThatIsGoneFailsWhoWaitsAndIsAskedForAgainByTheNext) {
    EXPECT_EQ(begin(region(1), 1), Use::kHeld);
    EXPECT_EQ(asks(), 1u);
    EXPECT_TRUE(directory.on_described(region(1), {}));
    EXPECT_EQ(released(), (std::map<uint32_t, bool>{{1, false}}));
    EXPECT_EQ(begin(region(1), 2), Use::kHeld);
    EXPECT_EQ(asks(), 1u);
    end(1);
    EXPECT_TRUE(directory.on_described(region(1), kDescriptor));
    import(7);
    end(2);
    EXPECT_EQ(directory.counts().reads, 0u);
}

TEST_F(Directory, AnImportThatFailsIsTriedAgainAndThenFailsWhoWaits) {
    EXPECT_EQ(begin(region(1), 1), Use::kHeld);
    EXPECT_TRUE(directory.on_described(region(1), kDescriptor));
    for (uint32_t i = 0; i < RegionDirectory::kImportAttempts; ++i) {
        EXPECT_TRUE(released().empty());
        import(0);
    }
    uint32_t place;
    EXPECT_FALSE(directory.next_import(&place));
    EXPECT_EQ(released(), (std::map<uint32_t, bool>{{1, false}}));
    end(1);
    EXPECT_EQ(forgotten(), 0u);
}

TEST_F(Directory, WithoutAnAnswerItIsAskedForAgainAfterAWholeTick) {
    EXPECT_EQ(begin(region(1), 1), Use::kHeld);
    EXPECT_EQ(asks(), 1u);
    directory.on_tick();
    EXPECT_EQ(asks(), 0u);
    directory.on_tick();
    EXPECT_EQ(asks(), 1u);
    EXPECT_TRUE(directory.on_described(region(1), kDescriptor));
    for (int i = 0; i < 5; ++i) directory.on_tick();
    EXPECT_EQ(asks(), 0u) << "there is an answer";
}

TEST_F(Directory, AnOwnerThatStartsAnewIsAskedAgainAtOnce) {
    make_known(region(1), 1, 7);
    EXPECT_EQ(begin(region(2), 2), Use::kHeld);
    EXPECT_EQ(asks(), 1u);
    directory.on_restarted(kOther);
    EXPECT_EQ(asks() + forgotten(), 0u);
    directory.on_restarted(kOwner);
    EXPECT_EQ(asks(), 1u);
    EXPECT_EQ(asked, region(2));
    EXPECT_EQ(forgotten(), 1u) << "what it has described";
    EXPECT_EQ(begin(region(1), 3), Use::kHeld);
}

TEST_F(Directory, WhatIsBeingReadIsForgottenWhenThatHasEnded) {
    make_known(region(1), 1, 7);
    EXPECT_EQ(begin(region(1), 2), Use::kReady);
    directory.on_restarted(kOwner);
    EXPECT_EQ(forgotten(), 0u);
    EXPECT_EQ(begin(region(1), 3), Use::kHeld) << "another read asks";
    end(2);
    EXPECT_EQ(forgotten(), 1u);
}

TEST_F(Directory, ALostOwnerFailsWhoWaitsAndNobodyAsksItAgain) {
    make_known(region(1), 1, 7);
    EXPECT_EQ(begin(region(2), 2), Use::kHeld);
    directory.on_lost(kOwner);
    EXPECT_EQ(released(), (std::map<uint32_t, bool>{{2, false}}));
    end(2);
    EXPECT_EQ(forgotten(), 1u);
    EXPECT_EQ(begin(region(1), 3), Use::kLost);
    EXPECT_EQ(begin(region(1, kOther), 4), Use::kHeld) << "another of its node";
}

class DirectoryWithImport : public Directory {
  protected:
    void lose_and_import(ImportHandle handle) {
        EXPECT_EQ(begin(region(1), 1), Use::kHeld);
        EXPECT_TRUE(directory.on_described(region(1), kDescriptor));
        directory.on_lost(kOwner);
        EXPECT_EQ(released(), (std::map<uint32_t, bool>{{1, false}}));
        end(1);
        import(handle);
        uint32_t place;
        EXPECT_FALSE(directory.next_import(&place));
        EXPECT_EQ(begin(region(1, kOther), 2), Use::kHeld);
        EXPECT_EQ(begin(region(2, kOther), 3), Use::kHeld) << "its place is free again";
    }
};

TEST_F(DirectoryWithImport, WhatComesOfADescriptorOfALostOwnerIsForgotten) {
    lose_and_import(7);
    EXPECT_EQ(forgotten(), 1u);
}

TEST_F(DirectoryWithImport, OrIsNotTriedAgain) {
    lose_and_import(0);
    EXPECT_EQ(forgotten(), 0u);
}

}  // namespace
}  // namespace longshore
