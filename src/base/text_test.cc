#include "base/text.h"

#include <gtest/gtest.h>
#include <locale.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>

namespace longshore {
namespace {

TEST(Append, WritesAllOfALongText) {
    for (const size_t bytes : {0u, 1u, 510u, 511u, 512u, 513u, 100'000u}) {
        const std::string word(bytes, 'x');
        std::string out = "before ";
        append(&out, "%s|%d", word.c_str(), 7);
        EXPECT_EQ(out, "before " + word + "|7") << bytes;
    }
}

// A locale with a decimal comma, made in a folder of the test's own.
class DecimalComma : public testing::Test {
  protected:
    void SetUp() override {
        char folder[] = "/tmp/longshore-locale-XXXXXX";
        ASSERT_NE(mkdtemp(folder), nullptr);
        folder_ = folder;
        const std::string made = folder_ + "/de_DE.UTF-8";
        if (system(("localedef -i de_DE -f UTF-8 " + made + " 2>/dev/null").c_str()) != 0)
            GTEST_SKIP() << "SKIP: localedef cannot make a locale ('make deps-test' installs what it needs)";
        setenv("LOCPATH", folder, 1);
        ASSERT_NE(setlocale(LC_ALL, "de_DE.UTF-8"), nullptr);
        char text[16];
        snprintf(text, sizeof text, "%.1f", 0.5);
        ASSERT_STREQ(text, "0,5") << "or it tests nothing";
    }
    void TearDown() override {
        setlocale(LC_ALL, "C");
        unsetenv("LOCPATH");
        std::filesystem::remove_all(folder_);
    }

    std::string folder_;
};

TEST_F(DecimalComma, IsNotInWhatIsWritten) {
    std::string out;
    append(&out, "%.3f %g %d", 1234.5, 0.25, 1000);
    EXPECT_EQ(out, "1234.500 0.25 1000");
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    EXPECT_STREQ(text, "0,5") << "the program's locale is its own again";
}

}  // namespace
}  // namespace longshore
