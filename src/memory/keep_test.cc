// The rule by which freed pages are kept, and what it is told of the machine's memory.
#include "memory/keep.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "memory/machine_memory.h"

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint32_t kPagesOfGiB = kGiB / 4096;

longshore_machine_memory machine(uint64_t bytes, uint64_t available) {
    longshore_machine_memory out{};
    out.limit_count = 1;
    out.limits[0] = {bytes, available};
    return out;
}

TEST(Keep, UntilSomebodyHasLookedLittleIsKept) {
    longshore_keep keep;
    longshore_keep_begin(&keep, 4);
    EXPECT_EQ(longshore_keep_max(&keep, 0), uint32_t{kKeepLeastPages});
    const longshore_machine_memory nothing{};
    longshore_keep_look(&keep, &nothing, 0, 0);
    EXPECT_EQ(longshore_keep_max(&keep, 0), uint32_t{kKeepFirstPages});
}

TEST(Keep, OnlyWhatWasGivenBackAndTakenAgainAddsToIt) {
    longshore_keep keep;
    longshore_keep_begin(&keep, 1);
    longshore_keep_took(&keep, kPagesOfGiB, kPagesOfGiB, 0, kPagesOfGiB);
    EXPECT_EQ(keep.useful, uint32_t{kKeepFirstPages}) << "taken for the first time";
    longshore_keep_gave_back(&keep, 1000);
    longshore_keep_took(&keep, kPagesOfGiB, kPagesOfGiB, 0, 2 * kPagesOfGiB);
    EXPECT_EQ(keep.useful, kKeepFirstPages + 1000);
    longshore_keep_took(&keep, kPagesOfGiB, kPagesOfGiB, 0, 3 * kPagesOfGiB);
    EXPECT_EQ(keep.useful, kKeepFirstPages + 1000) << "counted once";
    for (int i = 0; i < 100; ++i) {
        longshore_keep_gave_back(&keep, kPagesOfGiB);
        longshore_keep_took(&keep, kPagesOfGiB, kPagesOfGiB, 0, 3 * kPagesOfGiB);
    }
    EXPECT_EQ(keep.useful, 3 * kPagesOfGiB) << "never more than was ever allocated at once";
}

// All want to keep what they can, each looks at its own time, and all see the same figures.
TEST(Keep, ManyProcessesTogetherLeaveMemoryFree) {
    constexpr uint64_t kTotal = 256 * kGiB;
    for (const uint32_t processes : {1u, 8u, 64u, 128u}) {
        std::vector<longshore_keep> keeps(processes);
        std::vector<uint64_t> kept(processes);
        uint64_t kept_pages = 0;
        for (auto& keep : keeps) {
            longshore_keep_begin(&keep, 64);
            keep.useful = UINT32_MAX;
        }
        const auto round = [&](uint64_t used) {
            // The figures are those from before anybody has acted.
            const uint64_t taken = used + kept_pages * 4096;
            const longshore_machine_memory memory = machine(kTotal, taken < kTotal ? kTotal - taken : 0);
            for (uint32_t i = 0; i < processes; ++i) {
                longshore_keep_look(&keeps[i], &memory, 0, static_cast<uint32_t>(kept[i]));
                kept_pages -= kept[i];
                kept_pages += kept[i] = longshore_keep_max(&keeps[i], 0);
            }
            return used + kept_pages * 4096;
        };
        for (int i = 0; i < 500; ++i) ASSERT_LE(round(100 * kGiB), kTotal - kTotal / 16) << processes;
        EXPECT_GE(kept_pages * 4096, 60 * kGiB) << "it is not left unused, either";
        // Others need more: within some looks there is room again.
        for (int i = 0; i < 8; ++i) round(220 * kGiB);
        EXPECT_LE(220 * kGiB + kept_pages * 4096, kTotal - kTotal / 16) << processes;
    }
}

TEST(Keep, WhereItIsNarrowWhatIsFreedMayStayAndNothingIsAdded) {
    longshore_keep keep;
    longshore_keep_begin(&keep, 1);
    keep.useful = UINT32_MAX;
    const longshore_machine_memory memory = machine(256 * kGiB, 24 * kGiB);
    longshore_keep_look(&keep, &memory, 3 * kPagesOfGiB, kPagesOfGiB);
    EXPECT_EQ(longshore_keep_max(&keep, 3 * kPagesOfGiB), kPagesOfGiB);
    EXPECT_EQ(longshore_keep_max(&keep, 0), 4 * kPagesOfGiB);
    EXPECT_EQ(longshore_keep_max(&keep, 5 * kPagesOfGiB), uint32_t{kKeepLeastPages});
}

TEST(Keep, TheNarrowestLimitCounts) {
    longshore_keep keep;
    longshore_keep_begin(&keep, 1);
    keep.useful = UINT32_MAX;
    longshore_machine_memory memory = machine(256 * kGiB, 200 * kGiB);
    longshore_keep_look(&keep, &memory, 0, 0);
    EXPECT_EQ(longshore_keep_max(&keep, 0), (200 - 32) / 2 * kPagesOfGiB);
    memory.limits[memory.limit_count++] = {8 * kGiB, 5 * kGiB};
    longshore_keep_look(&keep, &memory, 0, 0);
    EXPECT_EQ(longshore_keep_max(&keep, 0), (5 - 1) / 2 * kPagesOfGiB);
    memory.limits[1].available = kGiB / 8;
    longshore_keep_look(&keep, &memory, 0, kPagesOfGiB);
    EXPECT_EQ(longshore_keep_max(&keep, 0), 0u);
    EXPECT_TRUE(keep.is_short);
}

// Files as the kernel has them, in a folder of their own.
class NodeMemory : public testing::Test {
  protected:
    NodeMemory() {
        char name[] = "/tmp/longshore-node-memory-XXXXXX";
        root_ = mkdtemp(name);
        write("/proc/meminfo", "MemTotal:       33554432 kB\nMemFree:   1 kB\nMemAvailable:   16777216 kB\n");
    }
    ~NodeMemory() override { std::filesystem::remove_all(root_); }
    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << text;
    }
    longshore_machine_memory read() {
        longshore_machine_memory out;
        longshore_read_machine_memory(root_.c_str(), &out);
        return out;
    }
    std::string root_;
};

TEST_F(NodeMemory, OfTheMachine) {
    longshore_machine_memory memory = read();
    ASSERT_EQ(memory.limit_count, 1u);
    EXPECT_EQ(memory.limits[0].bytes, 32 * kGiB);
    EXPECT_EQ(memory.limits[0].available, 16 * kGiB);
    EXPECT_FALSE(memory.stalls);
    write("/proc/pressure/memory",
          "some avg10=9.99 avg60=50.00 avg300=0 total=7\nfull avg10=9.00 avg60=0.00\n");
    EXPECT_FALSE(read().stalls);
    write("/proc/pressure/memory",
          "some avg10=10.05 avg60=0.00 avg300=0 total=7\nfull avg10=0.00 avg60=0.00\n");
    EXPECT_TRUE(read().stalls);
    std::filesystem::remove_all(root_ + "/proc");
    EXPECT_EQ(read().limit_count, 0u);
}

TEST_F(NodeMemory, OfControlGroupsVersion2) {
    write("/proc/self/cgroup", "0::/job/step/task\n");
    const std::string at = "/sys/fs/cgroup/job";
    write(at + "/memory.max", "8589934592\n");
    write(at + "/memory.high", "max\n");
    write(at + "/memory.current", "6442450944\n");
    write(at + "/memory.stat", "anon 1\nfile 9\ninactive_file 1073741824\nactive_file 1073741824\nshmem 5\n");
    write(at + "/step/memory.max", "max\n");
    write(at + "/step/memory.high", "4294967296\n");
    write(at + "/step/memory.current", "5368709120\n");
    write(at + "/step/memory.stat", "anon 1\ninactive_file 0\nactive_file 0\n");
    write(at + "/step/task/memory.max", "max\n");
    write(at + "/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    write("/proc/pressure/memory", "some avg10=90.00 avg60=0.00 avg300=0.00 total=0\n");
    const longshore_machine_memory memory = read();
    ASSERT_EQ(memory.limit_count, 3u);
    EXPECT_EQ(memory.limits[1].bytes, 4 * kGiB);
    EXPECT_EQ(memory.limits[1].available, 0u) << "it is above what it should have";
    EXPECT_EQ(memory.limits[2].bytes, 8 * kGiB);
    EXPECT_EQ(memory.limits[2].available, 4 * kGiB) << "the cache of files can go";
    EXPECT_FALSE(memory.stalls) << "others wait, we do not";
    write(at + "/step/memory.pressure", "some avg10=55.00 avg60=0.00 avg300=0.00 total=0\n");
    EXPECT_TRUE(read().stalls);
}

TEST_F(NodeMemory, OfControlGroupsVersion1) {
    write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/slurm/job\n0::/\n");
    const std::string at = "/sys/fs/cgroup/memory";
    write(at + "/memory.limit_in_bytes", "9223372036854771712\n");
    write(at + "/slurm/job/memory.limit_in_bytes", "8589934592\n");
    write(at + "/slurm/job/memory.usage_in_bytes", "2147483648\n");
    write(at + "/slurm/job/memory.stat",
          "cache 1\ninactive_file 7\ntotal_inactive_file 1073741824\ntotal_active_file 0\n");
    longshore_machine_memory memory = read();
    ASSERT_EQ(memory.limit_count, 2u);
    EXPECT_EQ(memory.limits[1].bytes, 8 * kGiB);
    EXPECT_EQ(memory.limits[1].available, 7 * kGiB);
    // A container that has its own group mounted, but is told its path on the host.
    write("/proc/self/cgroup", "4:memory:/docker/0123456789abcdef\n");
    write(at + "/memory.limit_in_bytes", "4294967296\n");
    write(at + "/memory.usage_in_bytes", "1073741824\n");
    write(at + "/memory.stat", "total_inactive_file 0\ntotal_active_file 0\n");
    memory = read();
    ASSERT_EQ(memory.limit_count, 2u);
    EXPECT_EQ(memory.limits[1].bytes, 4 * kGiB);
    EXPECT_EQ(memory.limits[1].available, 3 * kGiB);
}

TEST_F(NodeMemory, NonsenseIsNotBelieved) {
    write("/proc/self/cgroup", "0::" + std::string(3000, '/') + "\n");
    EXPECT_EQ(read().limit_count, 1u);
    write("/proc/self/cgroup", "memory\n:\n::\n");
    EXPECT_EQ(read().limit_count, 1u);
    write("/proc/self/cgroup", "0::/a\n");
    write("/sys/fs/cgroup/a/memory.max", "none of your business\n");
    EXPECT_EQ(read().limit_count, 1u);
}

TEST(NodeMemoryHere, IsThatOfThisMachine) {
    longshore_machine_memory memory;
    longshore_read_machine_memory("", &memory);
    ASSERT_GE(memory.limit_count, 1u);
    EXPECT_GT(memory.limits[0].available, 0u);
    EXPECT_LE(memory.limits[0].available, memory.limits[0].bytes);
}

}  // namespace
