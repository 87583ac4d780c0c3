#include "fabric/shm/mapped_processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/shm/system.h"

namespace longshore {
namespace {

constexpr uint64_t kWindow = MappedProcesses::kWindowBytes, kSome = 4096;

// Shared memory of this very process, as a heap has it: sparse, and growing.
class SharedByOthers : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(file_);
        ASSERT_EQ(fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
        grow_to(5 * kWindow);
    }
    void grow_to(uint64_t bytes) { ASSERT_EQ(ftruncate(file_.get(), static_cast<off_t>(bytes)), 0); }
    ProcessSpan span(uint64_t bytes) const {
        struct stat status {};
        fstat(file_.get(), &status);
        const auto pid = static_cast<uint32_t>(getpid());
        return {pid,
                process_start_time(pid),
                4096,
                bytes,
                {static_cast<uint32_t>(file_.get()), status.st_ino, 0, bytes, 0}};
    }
    std::byte* find(MappedProcesses& processes, const ProcessSpan& span, uint64_t offset) {
        uint64_t bytes = kSome;
        return processes.find_shared(span, offset, &bytes, true, true);
    }
    std::byte at(uint64_t offset) {
        std::byte byte{};
        EXPECT_EQ(pread(file_.get(), &byte, 1, static_cast<off_t>(offset)), 1);
        return byte;
    }
    Fd file_{memfd_create("test-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
};

TEST_F(SharedByOthers, EndsWithAWindow) {
    MappedProcesses processes(true);
    uint64_t bytes = 2 * kWindow;
    std::byte* const first = processes.find_shared(span(5 * kWindow), kWindow - 100, &bytes, true, true);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(bytes, 100u);
    first[99] = std::byte{7};
    EXPECT_EQ(at(kWindow - 1), std::byte{7});
    bytes = 2 * kWindow;
    ASSERT_NE(processes.find_shared(span(5 * kWindow), kWindow, &bytes, true, true), nullptr);
    EXPECT_EQ(bytes, kWindow);
}

TEST_F(SharedByOthers, IsNotTouchedBehindItsEnd) {
    MappedProcesses processes(true);
    const ProcessSpan all = span(8 * kWindow);  // what it may become
    EXPECT_NE(find(processes, all, 5 * kWindow - kSome), nullptr);
    EXPECT_EQ(find(processes, all, 5 * kWindow), nullptr);
    EXPECT_EQ(find(processes, all, 8 * kWindow), nullptr);
    grow_to(5 * kWindow + kSome);
    std::byte* const grown = find(processes, all, 5 * kWindow);
    ASSERT_NE(grown, nullptr);
    *grown = std::byte{9};
    EXPECT_EQ(at(5 * kWindow), std::byte{9});
    EXPECT_EQ(find(processes, all, 5 * kWindow + 1), nullptr);
}

TEST_F(SharedByOthers, TheLeastUsedWindowMakesRoom) {
    MappedProcesses processes(true, 2);
    const ProcessSpan all = span(5 * kWindow);
    for (int round = 0; round < 3; ++round)
        for (uint64_t i = 0; i < 5; ++i) {
            // Both ends of a copy are there at once.
            std::byte* const from = find(processes, all, i * kWindow);
            std::byte* const to = find(processes, all, (i + 1) % 5 * kWindow);
            ASSERT_TRUE(from && to);
            *from = static_cast<std::byte>(i + 1);
            *to = *from;
            EXPECT_EQ(at((i + 1) % 5 * kWindow), static_cast<std::byte>(i + 1));
            EXPECT_LE(processes.windows_mapped(), 2u);
        }
}

TEST_F(SharedByOthers, WhereNothingIsLetGoWhatWasFoundStays) {
    MappedProcesses processes(false, 2);
    const ProcessSpan all = span(5 * kWindow);
    std::byte* const first = find(processes, all, 0);
    ASSERT_TRUE(first && find(processes, all, kWindow));
    EXPECT_EQ(find(processes, all, 2 * kWindow), nullptr);
    *first = std::byte{3};
    EXPECT_EQ(at(0), std::byte{3});
}

// Threads of this process, each with the id of a process of its own as far as /proc goes, and all those ids
// alike modulo 1024: so are the pids of ranks that have 128 threads each.
class AlikeIds {
  public:
    explicit AlikeIds(size_t count) {
        constexpr size_t kTriesMax = 200'000;
        for (size_t i = 0; i < kTriesMax && ids.size() < count; ++i) {
            std::promise<uint32_t> id;
            std::future<uint32_t> told = id.get_future();
            std::thread thread([&id, this] {
                const auto own = static_cast<uint32_t>(gettid());
                const bool stays = ids.empty() || own % 1024 == ids.front() % 1024;
                id.set_value(stays ? own : 0);
                if (stays) over_.wait();
            });
            if (const uint32_t own = told.get(); own == 0) {
                thread.join();
            } else {
                ids.push_back(own);
                threads_.push_back(std::move(thread));
            }
        }
    }
    ~AlikeIds() {
        end_.set_value();
        for (std::thread& thread : threads_) thread.join();
    }
    std::vector<uint32_t> ids;

  private:
    std::promise<void> end_;
    std::shared_future<void> over_{end_.get_future()};
    std::vector<std::thread> threads_;
};

TEST_F(SharedByOthers, WhatWasFoundStaysHoweverManyProcessesThereAre) {
    const AlikeIds alike(9);
    ASSERT_EQ(alike.ids.size(), 9u) << "threads whose ids are alike";
    const auto span_of = [&](uint32_t id) {
        ProcessSpan one = span(5 * kWindow);
        one.pid = id;
        one.start_time = process_start_time(id);
        return one;
    };
    MappedProcesses processes(false);
    std::vector<std::byte*> found;
    for (const uint32_t id : alike.ids) {
        found.push_back(find(processes, span_of(id), 0));
        ASSERT_NE(found.back(), nullptr);
        ASSERT_EQ(processes.windows_mapped(), found.size()) << "one that was found before has gone";
    }
    for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(find(processes, span_of(alike.ids[i]), 0), found[i]);
        *found[i] = static_cast<std::byte>(i + 1);
        EXPECT_EQ(at(0), static_cast<std::byte>(i + 1));
    }
}

TEST_F(SharedByOthers, WhatWasFoundStaysWhenItsProcessSharesAnotherFile) {
    MappedProcesses processes(false);
    std::byte* const first = find(processes, span(5 * kWindow), 0);
    ASSERT_NE(first, nullptr);
    const Fd before = std::exchange(file_, Fd(memfd_create("test-other", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    SetUp();
    std::byte* const second = find(processes, span(5 * kWindow), 0);
    ASSERT_NE(second, nullptr);
    ASSERT_EQ(processes.windows_mapped(), 2u);
    *second = std::byte{5};
    *first = std::byte{4};
    EXPECT_EQ(at(0), std::byte{5});
    std::byte written{};
    ASSERT_EQ(pread(before.get(), &written, 1, 0), 1);
    EXPECT_EQ(written, std::byte{4});
}

TEST_F(SharedByOthers, FilesThatAreNoMoreSharedMakeRoomWhereItMay) {
    MappedProcesses letting_go(true), keeping(false);
    for (size_t i = 0; i < 2 * MappedProcesses::kFilesMax; ++i) {
        EXPECT_NE(find(letting_go, span(5 * kWindow), 0), nullptr);
        EXPECT_EQ(find(keeping, span(5 * kWindow), 0) != nullptr, i < MappedProcesses::kFilesMax);
        // Under the same number, which the next one takes: so it is opened in its place.
        const Fd next(memfd_create("test-next", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        ASSERT_EQ(dup2(next.get(), file_.get()), file_.get());
        SetUp();
    }
    EXPECT_EQ(letting_go.windows_mapped(), MappedProcesses::kFilesMax);
    EXPECT_EQ(keeping.windows_mapped(), MappedProcesses::kFilesMax);
}

TEST_F(SharedByOthers, AnotherFileUnderItsNumberIsNot) {
    ProcessSpan other = span(5 * kWindow);
    ++other.shared.identity;
    MappedProcesses processes(true);
    EXPECT_EQ(find(processes, other, 0), nullptr);
    EXPECT_NE(find(processes, span(5 * kWindow), 0), nullptr);
}

TEST(MappedProcesses, OneThatIsGoneIsNotStillThere) {
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    ProcessSpan span;
    span.pid = static_cast<uint32_t>(child);
    span.start_time = process_start_time(span.pid);
    MappedProcesses processes(true);
    EXPECT_TRUE(processes.is_there(span));
    EXPECT_TRUE(processes.is_still_there(span));
    ProcessSpan earlier = span;
    --earlier.start_time;
    EXPECT_FALSE(processes.is_there(earlier)) << "another process with its pid";
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    usleep(30'000);
    EXPECT_TRUE(processes.is_there(span)) << "what it shared may be mapped";
    EXPECT_FALSE(processes.is_still_there(span));
    EXPECT_FALSE(processes.is_still_there(span));
}

TEST(Process, IsOverWhenItHasLetGoOfAllItHad) {
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    EXPECT_FALSE(process_is_over(static_cast<uint32_t>(child)));
    EXPECT_FALSE(process_is_over(static_cast<uint32_t>(getpid())));
    kill(child, SIGKILL);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(process_is_over(static_cast<uint32_t>(child))) << "nobody has asked for its status yet";
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(process_is_over(static_cast<uint32_t>(child)));
}

}  // namespace
}  // namespace longshore
