// Which paths patterns match.
#include "io/preload/pattern.h"

#include <gtest/gtest.h>

namespace longshore::io {
namespace {

TEST(Matches, StarsStayWithinAName) {
    EXPECT_TRUE(matches("/a/*.ckpt", "/a/b.ckpt"));
    EXPECT_TRUE(matches("/a/*.ckpt", "/a/.ckpt"));
    EXPECT_FALSE(matches("/a/*.ckpt", "/a/b/c.ckpt"));
    EXPECT_FALSE(matches("/a/*.ckpt", "/a/b.ckpt2"));
    EXPECT_FALSE(matches("/a/*", "/a"));
    EXPECT_TRUE(matches("/a/*x*y*z", "/a/xxyyzz"));
    EXPECT_FALSE(matches("/a/*x*y*z", "/a/xxzzyy"));
}

TEST(Matches, DoubleStarsDoNot) {
    EXPECT_TRUE(matches("/a/**.h5", "/a/b/c/d.h5"));
    EXPECT_TRUE(matches("/a/**/d*.h5", "/a/b/c/d7.h5"));
    EXPECT_FALSE(matches("/a/**/d*.h5", "/a/b/c/d7/e.h5"));
    EXPECT_TRUE(matches("/a/**/x?/*", "/a/x1/b/xy/z"));
}

TEST(Matches, LettersAndClasses) {
    EXPECT_TRUE(matches("/a/r?[0-9]", "/a/rx7"));
    EXPECT_FALSE(matches("/a/r?[0-9]", "/a/r/7"));
    EXPECT_TRUE(matches("/a/[!0-9]", "/a/x"));
    EXPECT_FALSE(matches("/a/[!0-9]", "/a/5"));
    EXPECT_FALSE(matches("/a[!x]b", "/a/b"));
    EXPECT_TRUE(matches("/a/[]x]", "/a/]"));
    EXPECT_TRUE(matches("/a/[x", "/a/[x"));  // a class that does not end is a letter
}

TEST(Patterns, FindsTheFirst) {
    static Patterns patterns;
    ASSERT_TRUE(patterns.set("/a/*.x:strict::/b/*"));
    EXPECT_TRUE(patterns.is_strict());
    EXPECT_EQ(patterns.find("/a/1.x"), 0);
    EXPECT_EQ(patterns.find("/b/1.x"), 1);
    EXPECT_EQ(patterns.find("/c/1.x"), -1);
    EXPECT_STREQ(patterns.at(1), "/b/*");
    EXPECT_EQ(patterns.at(2), nullptr);
}

TEST(Patterns, QuickLookMissesNothing) {
    static Patterns patterns;
    ASSERT_TRUE(patterns.set("/a/b*/c[0-9].x"));
    EXPECT_TRUE(patterns.may_match("c5.x"));
    EXPECT_TRUE(patterns.may_match("/a/b/c5.x"));
    EXPECT_FALSE(patterns.may_match("c5.y"));
    EXPECT_FALSE(patterns.may_match(""));
    ASSERT_TRUE(patterns.set("/a/whole.name"));
    EXPECT_TRUE(patterns.may_match("whole.name"));
    EXPECT_FALSE(patterns.may_match("other.name"));
}

TEST(Patterns, FoldersOfRelativePaths) {
    static Patterns patterns;
    ASSERT_TRUE(patterns.set("/a/b/*.x:/a/?/e.x:/**/f.y"));
    const auto may = [&](const char* folder, const char* path) {
        patterns.enter(folder);
        return patterns.may_match(path, true);
    };
    for (const char* folder : {"/a/b", "/a", "/", "/a/c"}) EXPECT_TRUE(may(folder, "e.x")) << folder;
    EXPECT_FALSE(may("/b", "1.x"));
    EXPECT_FALSE(may("/aa", "1.x"));
    EXPECT_FALSE(may("/b/a/b", "1.x"));
    EXPECT_TRUE(may("/b", "f.y"));
    // That can lead anywhere, or is in another folder.
    for (const char* path : {"../a/b/1.x", "c/../../a/b/1.x", "./1.x", "c//1.x", "/a/b/1.x"})
        EXPECT_TRUE(may("/b", path)) << path;
    EXPECT_TRUE(patterns.may_match("1.x"));
    EXPECT_TRUE(may(nullptr, "1.x"));
    EXPECT_FALSE(may(nullptr, "1.z"));
}

TEST(Patterns, PathsAreMadeWhole) {
    static Patterns patterns;
    ASSERT_TRUE(patterns.set("/a/b/*.x"));
    EXPECT_EQ(patterns.find_in("/a/b", "1.x"), 0);
    EXPECT_EQ(patterns.find_in("/a", "./b//1.x"), 0);
    EXPECT_EQ(patterns.find_in("/a/b/c", "../1.x"), 0);
    EXPECT_EQ(patterns.find_in("/", "a/b/1.x"), 0);
    EXPECT_EQ(patterns.find_in("/a/b", "/c/1.x"), -1);
    EXPECT_EQ(patterns.find_in("/a", "../../../a/b/1.x"), 0);
    EXPECT_EQ(patterns.find_in("", "/a/b/1.x"), 0);
    EXPECT_EQ(patterns.find_in("", "/a//b/./1.x"), 0);
    EXPECT_EQ(patterns.find_in("", "/c/../a/b/1.x"), 0);
    EXPECT_EQ(patterns.find_in("", "/a/b/.1.x"), 0);
    EXPECT_EQ(patterns.find_in("", "/a/.b/1.x"), -1);
    EXPECT_EQ(patterns.find_in("/a/b", std::string(5000, 'x').c_str()), -1);
}

TEST(Patterns, TooManyAreRefused) {
    static Patterns patterns;
    std::string list;
    for (uint32_t i = 0; i < kPatternsMax; ++i) list += "/" + std::to_string(i) + ":";
    EXPECT_TRUE(patterns.set(list.c_str()));
    EXPECT_FALSE(patterns.set((list + "/more").c_str()));
    EXPECT_FALSE(patterns.set(std::string(5000, 'x').c_str()));
}

}  // namespace
}  // namespace longshore::io
