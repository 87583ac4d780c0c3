#include "base/ucx_info.h"

#include <gtest/gtest.h>

namespace longshore {
namespace {

// As ucp_context_print_info() has them, of a machine without a card and of one with a card.
constexpr const char* kWithout = "#      resource 1  :  md 1  dev 1  flags -- tcp/lo\n";
constexpr const char* kReliable = "#      resource 3  :  md 4  dev 2  flags -- rc_mlx5/mlx5_0:1\n";
constexpr const char* kDynamic = "#      resource 4  :  md 4  dev 2  flags -- dc_mlx5/mlx5_0:1\n";

TEST(UcxInfo, IsWhatIsPrinted) {
    const auto print = +[](const char* text, FILE* file) { fputs(text, file); };
    EXPECT_EQ(ucx_info(print, kWithout), kWithout);
    EXPECT_EQ(ucx_info(print, ""), "");
}

TEST(UcxInfo, SaysWhetherACardReadsAndWrites) {
    EXPECT_FALSE(has_rdma_transport(kWithout));
    EXPECT_FALSE(has_rdma_transport("# ud_verbs/mlx5_0:1, src_1"));
    for (const char* card : {kReliable, kDynamic})
        EXPECT_TRUE(has_rdma_transport(std::string(kWithout) + card));
}

}  // namespace
}  // namespace longshore
