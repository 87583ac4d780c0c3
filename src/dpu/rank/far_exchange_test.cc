// Exchanges that a stand-in asks its rank for.
#include "dpu/rank/far_exchange.h"

#include <gtest/gtest.h>
#include <string.h>

namespace longshore {
namespace {

// What all members give goes back in one frame, and there is a longest.
TEST(FarExchange, WhatIsTooLongForTheJobFailsOnAllRanks) {
    constexpr uint32_t kRanks = 4096;
    struct Others {
        size_t bytes = 0;
        static int start(void* user, const void* in, void* out, size_t bytes) {
            static_cast<Others*>(user)->bytes = bytes;
            for (uint32_t r = 0; r < kRanks; ++r) memcpy(static_cast<std::byte*>(out) + r * bytes, in, bytes);
            return LS_OK;
        }
        static int test(void*) { return LS_OK; }
    };
    for (const bool too_long : {false, true}) {
        Others others;
        FarExchange exchange(0, {&others, 0, kRanks, &Others::start, &Others::test});
        SessionExchange message;
        message.bytes.resize(too_long ? (kSessionBytesMax / kRanks) : 64);
        exchange.want(message);
        SessionStream stream;
        int rc = LS_IN_PROGRESS;
        for (int turns = 0; turns < 4 && rc == LS_IN_PROGRESS; ++turns) rc = exchange.test(&stream);
        EXPECT_EQ(rc, too_long ? LS_ERR_UNAVAILABLE : LS_IN_PROGRESS);
        EXPECT_EQ(exchange.reason().find("too long") != std::string::npos, too_long) << exchange.reason();
    }
}

}  // namespace
}  // namespace longshore
