#include "dpu/card/plugin_folders.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "dpu/card/gate_test_service.h"

namespace longshore {
namespace {

namespace fs = std::filesystem;

class PluginFolders : public testing::Test {
  protected:
    PluginFolders() {
        char name[] = "/tmp/longshore-test-plugins-XXXXXX";
        EXPECT_NE(mkdtemp(name), nullptr);
        folder_ = name;
        chmod(name, 0755);
        for (const char* part : {"one", "two"}) {
            fs::create_directory(folder_ / part);
            chmod((folder_ / part).c_str(), 0755);
        }
        make("two/plugin.so");
    }
    ~PluginFolders() override { fs::remove_all(folder_); }
    void make(const std::string& name) const {
        std::ofstream(folder_ / name) << "plug-in";
        chmod((folder_ / name).c_str(), 0755);
    }
    std::string find(const std::string& name = "plugin.so") {
        error_.clear();
        return find_trusted_plugin({folder_ / "one", folder_ / "two", folder_ / "three"}, name, &error_);
    }
    bool is_refused_for(const std::string& why) {
        const std::string found = find();
        return found.empty() && error_.find(why) != std::string::npos;
    }
    fs::path folder_;
    std::string error_;
};

TEST_F(PluginFolders, TheFirstThatHasItIsTaken) {
    SKIP_UNLESS_ROOT();
    EXPECT_EQ(find(), folder_ / "two/plugin.so") << error_;
    make("one/plugin.so");
    EXPECT_EQ(find(), folder_ / "one/plugin.so") << error_;
}

TEST_F(PluginFolders, NamesAreNamesOfFiles) {
    for (const char* name : {"", ".", "..", "../two/plugin.so", "/etc/passwd", "a/b"}) {
        EXPECT_EQ(find(name), "") << name;
        EXPECT_NE(error_, "");
    }
    EXPECT_EQ(find("another.so"), "");
    EXPECT_NE(error_.find("has no another.so in its folders"), std::string::npos) << error_;
}

TEST_F(PluginFolders, WhatMayBeAnothersIsRefused) {
    SKIP_UNLESS_ROOT();
    const fs::path plugin = folder_ / "two/plugin.so", two = folder_ / "two";
    chmod(plugin.c_str(), 0775);
    EXPECT_TRUE(is_refused_for("mode 0775")) << error_;
    chmod(plugin.c_str(), 0757);
    EXPECT_TRUE(is_refused_for("mode 0757")) << error_;
    chmod(plugin.c_str(), 0755);
    ASSERT_EQ(chown(plugin.c_str(), 12345, 0), 0);
    EXPECT_TRUE(is_refused_for("user 12345")) << error_;
    ASSERT_EQ(chown(plugin.c_str(), 0, 0), 0);
    chmod(two.c_str(), 01777);  // others may put plug-ins there, sticky or not
    EXPECT_TRUE(is_refused_for("mode 1777")) << error_;
    chmod(two.c_str(), 0755);
    chmod(folder_.c_str(), 0777);
    EXPECT_TRUE(is_refused_for("mode 0777")) << error_;
    chmod(folder_.c_str(), 0755);
    ASSERT_EQ(chown(folder_.c_str(), 12345, 0), 0);
    EXPECT_TRUE(is_refused_for("user 12345")) << error_;
    ASSERT_EQ(chown(folder_.c_str(), 0, 0), 0);
    EXPECT_EQ(find(), plugin) << error_;
}

TEST_F(PluginFolders, LinksAndOtherThingsAreNoPlugins) {
    SKIP_UNLESS_ROOT();
    fs::create_symlink(folder_ / "two/plugin.so", folder_ / "one/plugin.so");
    EXPECT_TRUE(is_refused_for("is no file")) << error_;
    fs::remove(folder_ / "one/plugin.so");
    fs::create_directory(folder_ / "one/plugin.so");
    EXPECT_TRUE(is_refused_for("is no file")) << error_;
}

// A folder may be listed by way of a link: where it leads to counts.
TEST_F(PluginFolders, AFolderIsLookedAtWhereItIs) {
    SKIP_UNLESS_ROOT();
    fs::remove(folder_ / "one");
    fs::create_directory_symlink(folder_ / "two", folder_ / "one");
    EXPECT_EQ(find(), folder_ / "two/plugin.so") << error_;
}

TEST(HarmlessVariables, SayHowThreadsRunAndNothingElse) {
    const std::vector<std::string> all{"OMP_NUM_THREADS=4", "LD_PRELOAD=/tmp/x.so",         "PATH=/tmp",
                                       "OMP_PLACES=cores",  "OMP_TOOL_LIBRARIES=/tmp/x.so", "OMP_NUM_THREADS",
                                       "LD_LIBRARY_PATH=/", "OMP_NUM_THREADSX=1",           ""};
    const std::vector<std::string> wanted{"OMP_NUM_THREADS=4", "OMP_PLACES=cores"};
    EXPECT_EQ(harmless_variables(all), wanted);
}

}  // namespace
}  // namespace longshore
