#include "base/dpu_map.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <random>

namespace longshore {
namespace {

// The address, or the reason after a "!".
std::string find(const std::string& setting, const std::string& host = "node7.cluster.example") {
    std::string address, error;
    const bool found = find_dpu(setting, host, &address, &error);
    EXPECT_EQ(found, error.empty());
    EXPECT_EQ(found, !address.empty());
    return found ? address : "!" + error;
}

struct MapFile {
    explicit MapFile(const std::string& text) : path("/tmp/longshore-test-map-" + std::to_string(getpid())) {
        FILE* file = fopen(path.c_str(), "we");
        EXPECT_EQ(fwrite(text.data(), 1, text.size(), file), text.size());
        fclose(file);
    }
    ~MapFile() { unlink(path.c_str()); }
    std::string path;
};

std::string find_in(const std::string& text, const std::string& host = "node7.cluster.example") {
    const MapFile file(text);
    std::string found = find("@" + file.path, host);
    const size_t at = found.find(file.path);
    return at == found.npos ? found : found.replace(at, file.path.size(), "FILE");
}

TEST(DpuMap, OnePatternServesAllHosts) {
    EXPECT_EQ(find("dpu"), "dpu");
    EXPECT_EQ(find("%h-bf3:7521"), "node7-bf3:7521");
    EXPECT_EQ(find("bf.%h.%h", "n1"), "bf.n1.n1");
    EXPECT_EQ(find("192.168.100.2:1"), "192.168.100.2:1");
    EXPECT_EQ(find("[fe80::1%hca0]:65535"), "[fe80::1%hca0]:65535");
    EXPECT_EQ(find("[::ffff:10.0.0.1]"), "[::ffff:10.0.0.1]");
}

TEST(DpuMap, WhatIsNoAddressIsRefused) {
    for (const char* bad :
         {"%",          "%x",         "a b",     ":7521",    "dpu:",  "dpu:0", "dpu:65536",
          "dpu:+1",     "dpu:1:2",    "fe80::1", "[fe80::1", "[]",    "[dpu]", "[fe80::1]7521",
          "[fe80::1%]", "[fe80::1]:", "-dpu",    ".dpu",     "dpu/1", "dpu\n", "d\xc3\xa9pu"}) {
        EXPECT_NE(find(bad).find("is not a DPU's HOST[:PORT]"), std::string::npos) << bad;
        EXPECT_TRUE(find(bad).starts_with("!LONGSHORE_DPU: ")) << bad;
    }
    EXPECT_EQ(find("%h", ""), "!LONGSHORE_DPU: \"\" is not a DPU's HOST[:PORT]");
    EXPECT_LT(find(std::string(5000, 'x')).size(), 200u);
}

TEST(DpuMap, AListNamesEachHost) {
    EXPECT_EQ(find("node6=dpu6,node7=dpu7:99"), "dpu7:99");
    EXPECT_EQ(find("node7=short,node7.cluster.example=whole"), "whole");
    EXPECT_EQ(find("node7=[fe80::2]:5"), "[fe80::2]:5");
    EXPECT_EQ(find("node=dpu", "node"), "dpu");
    EXPECT_EQ(find("node6=dpu6"), "!LONGSHORE_DPU: it names no DPU for the host node7.cluster.example");
    EXPECT_EQ(find("node7=a,node7=b"), "!LONGSHORE_DPU: the host node7 is there twice");
    // Also where it is another host's entry.
    EXPECT_EQ(find("node7=a,node8=b:x"), "!LONGSHORE_DPU: \"b:x\" is not a DPU's HOST[:PORT]");
    for (const char* bad : {"=dpu", "node7=", "node7=dpu,", ",node7=dpu", "node7=dpu,,node8=dpu", "a=b=c",
                            "a,b", "node 7=dpu", "node7=%h", ","}) {
        EXPECT_TRUE(find(bad).starts_with("!")) << bad;
    }
}

TEST(DpuMap, AFileNamesEachHost) {
    const std::string good =
        "# hosts and their DPUs\n\nnode6 dpu6\n \tnode7\t dpu7:99  # the last one\r\n#node7 no";
    EXPECT_EQ(find_in(good), "dpu7:99");
    EXPECT_EQ(find_in(good, "node6"), "dpu6");
    EXPECT_EQ(find_in(good, "node5"), "!LONGSHORE_DPU: it names no DPU for the host node5");
    EXPECT_EQ(find_in("", "node5"), "!LONGSHORE_DPU: it names no DPU for the host node5");
    EXPECT_EQ(find_in("node7 dpu7\nnode8\n"),
              "!LONGSHORE_DPU: FILE:2: a line is a host and the HOST[:PORT] of its DPU");
    EXPECT_EQ(find_in("node7 dpu7 dpu8\n"),
              "!LONGSHORE_DPU: FILE:1: a line is a host and the HOST[:PORT] of its DPU");
    EXPECT_EQ(find_in("\nnode7 dpu7\nnode7 dpu8\n"), "!LONGSHORE_DPU: FILE:3: the host node7 is there twice");
    EXPECT_EQ(find_in("node7 dpu7:0"), "!LONGSHORE_DPU: FILE:1: \"dpu7:0\" is not a DPU's HOST[:PORT]");
    EXPECT_EQ(find_in(std::string("node7\0 dpu7", 11)),
              "!LONGSHORE_DPU: FILE:1: \"node7?\" is not the name of a host");
    EXPECT_EQ(find_in(std::string((1 << 20) + 1, '#')), "!LONGSHORE_DPU: FILE: is longer than 1M bytes");
    EXPECT_EQ(find("@/nowhere/map"), "!LONGSHORE_DPU: /nowhere/map: No such file or directory");
    EXPECT_TRUE(find("@").starts_with("!"));
    EXPECT_TRUE(find("@/tmp").starts_with("!"));  // a folder
}

// What is accepted is an address, whatever was given.
TEST(DpuMap, SurvivesRandomText) {
    std::mt19937 random(20250601);
    const std::string letters = "nh7%=,@:[]. a\n#";
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        for (size_t i = random() % 12; i > 0; --i) text += letters[random() % letters.size()];
        std::string address, error;
        const bool found = find_dpu(text, "n7", &address, &error);
        EXPECT_EQ(found, is_dpu_address(address)) << text;
    }
}

}  // namespace
}  // namespace longshore
