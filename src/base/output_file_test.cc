#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/file.h"

namespace longshore {
namespace {

class OutputFile : public testing::Test {
  protected:
    OutputFile() {
        char name[] = "/tmp/longshore-output-XXXXXX";
        folder_ = std::filesystem::canonical(mkdtemp(name));
    }
    ~OutputFile() override { std::filesystem::remove_all(folder_); }

    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    // What was said on stderr.
    std::string write(const std::string& name, const std::string& text) {
        std::string error;
        testing::internal::CaptureStderr();
        EXPECT_TRUE(write_output_file(path(name), text, &error)) << error;
        return testing::internal::GetCapturedStderr();
    }
    std::map<std::string, std::string> files() const {
        std::map<std::string, std::string> out;
        std::string error;
        for (const auto& entry : std::filesystem::directory_iterator(folder_))
            if (entry.is_regular_file())
                read_file(entry.path().string(), 1 << 20, &out[entry.path().filename().string()], &error);
        return out;
    }

    std::string folder_;
};

using Files = std::map<std::string, std::string>;

TEST_F(OutputFile, NoResultIsLost) {
    EXPECT_EQ(write("a", "1"), "");
    EXPECT_EQ(write("a", "2"),
              "longshore: " + path("a") + " was there already: that file is now " + path("a.old") + "\n");
    EXPECT_EQ(write("a", "3"),
              "longshore: " + path("a") + " was there already: that file is now " + path("a.old.2") + "\n");
    write("a", "4");
    EXPECT_EQ(files(), (Files{{"a", "4"}, {"a.old", "1"}, {"a.old.2", "2"}, {"a.old.3", "3"}}));
}

TEST_F(OutputFile, AnEmptyFileIsFilled) {
    write("a", "");
    EXPECT_EQ(write("a", "1"), "");
    EXPECT_EQ(files(), (Files{{"a", "1"}}));
}

TEST_F(OutputFile, ALinkStaysAndWhatItLeadsToIsKept) {
    write("real", "1");
    ASSERT_EQ(symlink("real", path("link").c_str()), 0);
    write("link", "2");
    EXPECT_EQ(files(), (Files{{"link", "2"}, {"real", "2"}, {"real.old", "1"}}));
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
}

// As /dev/null, in whose place root could put a file.
TEST_F(OutputFile, APipeIsWrittenInto) {
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    const int end = open(path("pipe").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    EXPECT_EQ(write("pipe", "1"), "");
    char text[8];
    EXPECT_EQ(read(end, text, sizeof text), 1);
    close(end);
    EXPECT_EQ(files(), Files());
}

// Where a shell has led standard output into a file, which has lines already.
TEST_F(OutputFile, AStreamGoesOn) {
    const int file = open(path("out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::write(file, "1", 1), 1);
    std::string error;
    EXPECT_TRUE(write_output_file("/proc/self/fd/" + std::to_string(file), "2", &error)) << error;
    EXPECT_TRUE(write_output_file("/dev/fd/" + std::to_string(file), "3", &error)) << error;
    close(file);
    EXPECT_EQ(files(), (Files{{"out", "123"}}));
}

TEST_F(OutputFile, WhatIsWrittenPieceByPieceLosesNoResult) {
    write("a", "1");
    std::string error;
    for (const auto& [append, text] : {std::pair{false, "2"}, std::pair{true, "3"}}) {
        FILE* const file = open_output_file(path("a"), append, &error);
        ASSERT_NE(file, nullptr) << error;
        fputs(text, file);
        fclose(file);
    }
    EXPECT_EQ(files(), (Files{{"a", "23"}, {"a.old", "1"}}));
    EXPECT_EQ(open_output_file(folder_, true, &error), nullptr);
    EXPECT_EQ(error, folder_ + ": Is a directory");
}

TEST_F(OutputFile, IsAskedForBeforeAndLeavesNothing) {
    write("a", "1");
    std::string why;
    for (const char* name : {"a", "b"}) EXPECT_TRUE(can_write_output_file(path(name), &why)) << why;
    EXPECT_TRUE(can_write_output_file("/dev/null", &why)) << why;
    EXPECT_EQ(files(), (Files{{"a", "1"}}));
    EXPECT_FALSE(can_write_output_file(folder_, &why));
    EXPECT_EQ(why, "Is a directory");
    EXPECT_FALSE(can_write_output_file(path("none/a"), &why));
    EXPECT_EQ(why, "No such file or directory");
}

TEST_F(OutputFile, SaysWhatFails) {
    std::string error;
    EXPECT_FALSE(write_output_file(folder_, "1", &error));
    EXPECT_EQ(error, folder_ + ": Is a directory");
    EXPECT_FALSE(write_output_file(path("none/a"), "1", &error));
    EXPECT_EQ(error, path("none/a") + ": No such file or directory");
}

}  // namespace
}  // namespace longshore
