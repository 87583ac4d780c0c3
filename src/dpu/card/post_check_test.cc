#include "dpu/card/post_check.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "engine/collective.h"

namespace longshore {
namespace {

constexpr uint32_t kSize = 4;
constexpr uint64_t kRegionBytes = 1 << 20;

std::vector<uint64_t> two_regions() {
    std::vector<uint64_t> regions(kFarRegionsMax);
    regions[1] = regions[2] = kRegionBytes;
    return regions;
}

bool sound(const SessionPost& post, uint32_t rank = 0) {
    return is_sound(post, Rank{rank}, kSize, two_regions());
}

// What a rank sends: block by block, from region 1 to region 2.
SessionPost post_of(Collective collective, uint32_t rank, uint32_t root, uint64_t block) {
    SessionPost p;
    p.collective = static_cast<uint8_t>(collective);
    p.root = root;
    const CollectiveRules& rules = rules_of(collective);
    const auto side = [&](bool there, Blocks blocks, uint64_t* block_bytes, uint64_t* bytes, uint32_t* region,
                          uint32_t number, std::vector<BlockSpan>* spans) {
        if (!there) return;
        *bytes = blocks == Blocks::kOne ? block : kSize * block;
        *region = number;
        if (rules.by_vector && blocks == Blocks::kPerRank) {
            for (uint32_t i = 0; i < kSize; ++i) spans->push_back({i * block, block});
        } else {
            *block_bytes = block;
        }
    };
    side(rules.gives(Rank{rank}, Rank{root}), rules.given, &p.send_block_bytes, &p.send_bytes, &p.send_region,
         1, &p.send_blocks);
    side(rules.takes(Rank{rank}, Rank{root}), rules.taken, &p.recv_block_bytes, &p.recv_bytes, &p.recv_region,
         2, &p.recv_blocks);
    return p;
}

TEST(PostCheck, WhatRanksSendIsTaken) {
    for (uint32_t c = 0; c < kCollectives; ++c) {
        for (uint32_t rank = 0; rank < kSize; ++rank) {
            for (const uint64_t block : {uint64_t{0}, uint64_t{1}, kRegionBytes / kSize})
                EXPECT_TRUE(sound(post_of(static_cast<Collective>(c), rank, 1, block), rank))
                    << c << " " << rank;
        }
    }
    SessionPost small = post_of(Collective::kAllgather, 0, 0, 100);
    small.send_region = 0;
    small.data.resize(100);
    EXPECT_TRUE(sound(small));
    SessionPost unopened = post_of(Collective::kAlltoall, 0, 0, 100);
    unopened.recv_region = kFarRegionsMax;
    EXPECT_TRUE(sound(unopened));
    SessionPost kept = post_of(Collective::kScatter, 1, 1, 100);
    kept.self_in_place = true;
    kept.recv_region = 0;
    kept.recv_bytes = kept.recv_block_bytes = 0;
    EXPECT_TRUE(sound(kept, 1));
}

// It made service processes write over the memory that all ranks of the job share on the DPU.
TEST(PostCheck, UniformBlocksLieInTheRegionThatIsNamed) {
    SessionPost into_the_arena = post_of(Collective::kAllgather, 0, 0, 100);
    into_the_arena.recv_region = 0;
    into_the_arena.recv_bytes = 0;
    into_the_arena.recv_block_bytes = 1 << 30;
    EXPECT_FALSE(sound(into_the_arena));
    into_the_arena.recv_bytes = kSize * into_the_arena.recv_block_bytes;
    EXPECT_FALSE(sound(into_the_arena));

    SessionPost longer = post_of(Collective::kAllgather, 0, 0, 100);
    longer.recv_block_bytes = 101;
    EXPECT_FALSE(sound(longer));
    SessionPost wraps = post_of(Collective::kAlltoall, 0, 0, 0);
    wraps.recv_block_bytes = uint64_t{1} << 62;
    EXPECT_FALSE(sound(wraps));
    SessionPost beyond = post_of(Collective::kAllgather, 0, 0, kRegionBytes / kSize);
    beyond.recv_offset = 1;
    EXPECT_FALSE(sound(beyond));
    beyond.recv_offset = UINT64_MAX;
    EXPECT_FALSE(sound(beyond));
    SessionPost nobody = post_of(Collective::kBcast, 1, 1, 100);  // a root receives nothing
    nobody.recv_block_bytes = nobody.recv_bytes = 100;
    EXPECT_FALSE(sound(nobody, 1));
}

TEST(PostCheck, EveryFieldIsLookedAt) {
    const SessionPost good = post_of(Collective::kAlltoallv, 0, 0, 100);
    const auto with = [&](auto change) {
        SessionPost p = good;
        change(p);
        return sound(p);
    };
    EXPECT_FALSE(with([](auto& p) { p.collective = kCollectives; }));
    EXPECT_FALSE(with([](auto& p) { p.algorithm = static_cast<uint8_t>(Algorithm::kStagedHierarchical); }));
    EXPECT_FALSE(with([](auto& p) { p.root = kSize; }));
    EXPECT_FALSE(with([](auto& p) { p.send_block_bytes = 1; }));
    EXPECT_FALSE(with([](auto& p) { p.send_blocks.pop_back(); }));
    EXPECT_FALSE(with([](auto& p) { p.recv_blocks[3].bytes = 101; }));
    EXPECT_FALSE(with([](auto& p) { p.recv_blocks[3].offset = UINT64_MAX; }));
    EXPECT_FALSE(with([](auto& p) { p.recv_region = 3; }));  // never opened
    EXPECT_FALSE(with([](auto& p) { p.recv_region = kFarRegionsMax + 1; }));
    EXPECT_FALSE(with([](auto& p) { p.data.resize(1); }));
    EXPECT_FALSE(is_sound(good, Rank{kSize}, kSize, two_regions()));
    SessionPost one_sided = post_of(Collective::kGather, 1, 0, 100);
    EXPECT_TRUE(sound(one_sided, 1));
    one_sided.self_in_place = true;  // it receives nothing that could be in place
    EXPECT_FALSE(sound(one_sided, 1));
}

// Fields are changed at random; whatever is taken stays within the regions, by an account of its own.
TEST(PostCheck, NothingThatIsTakenLeavesItsRegion) {
    Prng r(7);
    uint64_t taken = 0;
    const auto number = [&]() -> uint64_t {
        const uint64_t interesting[] = {0,
                                        1,
                                        100,
                                        101,
                                        kRegionBytes / kSize,
                                        kRegionBytes,
                                        kRegionBytes + 1,
                                        uint64_t{1} << 62,
                                        uint64_t{1} << 63,
                                        UINT64_MAX};
        return r.chance(800) ? interesting[r.below(std::size(interesting))] : r.next();
    };
    const auto regions = two_regions();
    for (int i = 0; i < 200'000; ++i) {
        const auto rank = static_cast<uint32_t>(r.below(kSize));
        SessionPost p = post_of(static_cast<Collective>(r.below(kCollectives)), rank,
                                static_cast<uint32_t>(r.below(kSize)), number());
        for (uint64_t changes = r.below(4); changes > 0; --changes) {
            uint64_t* const wide[] = {&p.send_block_bytes, &p.recv_block_bytes, &p.send_bytes,
                                      &p.recv_bytes,       &p.send_offset,      &p.recv_offset};
            switch (r.below(8)) {
                case 0:
                    p.send_region = static_cast<uint32_t>(r.below(4));
                    break;
                case 1:
                    p.recv_region = static_cast<uint32_t>(r.below(4));
                    break;
                case 2:
                    p.self_in_place = !p.self_in_place;
                    break;
                case 3:
                    p.data.resize(r.below(300));
                    break;
                case 4:
                    if (!p.recv_blocks.empty()) p.recv_blocks[r.below(kSize)] = {number(), number()};
                    break;
                case 5:
                    if (!p.send_blocks.empty()) p.send_blocks[r.below(kSize)] = {number(), number()};
                    break;
                default:
                    *wide[r.below(std::size(wide))] = number();
            }
        }
        if (!is_sound(p, Rank{rank}, kSize, regions)) continue;
        ++taken;
        using Wide = unsigned __int128;
        const auto stays = [&](uint32_t region, uint64_t offset, uint64_t block,
                               const std::vector<BlockSpan>& spans, uint64_t blocks) {
            const Wide all = region == 0 ? 0 : regions[region];
            if (block != 0) {
                EXPECT_LE(Wide{offset} + Wide{block} * blocks, all);
            }
            for (const BlockSpan& span : spans) {
                if (span.bytes != 0) {
                    EXPECT_LE(Wide{offset} + span.offset + span.bytes, all);
                }
            }
        };
        const CollectiveRules& rules = rules_of(static_cast<Collective>(p.collective));
        stays(p.recv_region, p.recv_offset, p.recv_block_bytes, p.recv_blocks,
              rules.taken == Blocks::kOne ? 1 : kSize);
        if (p.data.empty())
            stays(p.send_region, p.send_offset, p.send_block_bytes, p.send_blocks,
                  rules.given == Blocks::kOne ? 1 : kSize);
        else
            for (const BlockSpan& span : p.send_blocks)
                EXPECT_LE(Wide{span.offset} + span.bytes,
                          Wide{p.data.size()} + (span.bytes == 0 ? span.offset : 0));
    }
    EXPECT_GT(taken, 10'000u);
}

}  // namespace
}  // namespace longshore
