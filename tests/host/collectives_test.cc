// The table of the collectives (base/collectives.inc) says of each what the engine's rules do.
#include <gtest/gtest.h>

#include "base/selection.h"
#include "engine/collective.h"

namespace longshore {
namespace {

TEST(Table, SaysWhatTheRulesOfTheEngineDo) {
    ASSERT_EQ(kSelectedCount, kCollectives);
    for (uint8_t i = 0; i < kCollectives; ++i) {
        const CollectiveRules& rules = rules_of(static_cast<Collective>(i));
        const auto collective = static_cast<Selected>(i);
        EXPECT_STREQ(selected_name(collective), rules.name);
        EXPECT_EQ(is_to_all(collective), rules.is_shared) << rules.name;
        // Blocks of the root's own sizes, or of a pair's, are known to those alone.
        const bool sized_by_pair = rules.by_vector && !rules.is_shared;
        EXPECT_EQ(has_bytes(collective), !sized_by_pair) << rules.name;
    }
}

}  // namespace
}  // namespace longshore
