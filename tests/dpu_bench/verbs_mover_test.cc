// The verbs mover between two processes, and what it says when it cannot. Without an RDMA device only the
// latter: tests/rdma runs all of it where there is one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "dpu_bench/mover.h"
#include "failure.h"

namespace longshore::dpu_bench {
namespace {

constexpr int kRanks = 2, kMine = 0, kTwins = 1;
constexpr std::size_t kRegionBytes = std::size_t(20) << 20;  // more than Soft-RoCE says it takes at once

bool has_device() {
    std::error_code error;
    const bool none = std::filesystem::is_empty("/sys/class/infiniband", error);
    return !error && !none;
}

std::string refusal(const std::string& device) {
    return failure_of([&] { make_mover(MoverKind::kVerbs, device); });
}

// Looks, while it lives, at what the thread that made it does. One that spins is never seen asleep, also
// where it has to wait for a core.
class Looker {
  public:
    Looker() : path_("/proc/self/task/" + std::to_string(gettid()) + "/stat"), thread_([this] { look(); }) {}
    ~Looker() {
        if (thread_.joinable()) stop();
    }
    // Whether it was asleep at most looks.
    bool slept() {
        stop();
        std::fprintf(stderr, "asleep at %d looks of %d\n", asleep_, looks_);
        return 2 * asleep_ > looks_;
    }

  private:
    void look() {
        for (; !is_over_; ++looks_) {
            std::ifstream file(path_);
            const std::string stat(std::istreambuf_iterator<char>(file), {});
            const std::size_t name_end = stat.rfind(") ");
            asleep_ += name_end != stat.npos && stat[name_end + 2] == 'S';
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }
    void stop() {
        is_over_ = true;
        thread_.join();
    }

    const std::string path_;
    std::atomic<bool> is_over_{false};
    int asleep_ = 0, looks_ = 0;
    std::thread thread_;
};

// Memory that a process and its children see.
class Region {
  public:
    Region()
        : memory_(mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~Region() { munmap(memory_, kRegionBytes); }
    char* data() const { return static_cast<char*>(memory_); }
    std::string text(std::size_t offset, std::size_t bytes) const { return {data() + offset, bytes}; }
    void fill(unsigned seed) {
        for (std::size_t i = 0; i < kRegionBytes; ++i) data()[i] = char((i * 2654435761u + seed) >> 13);
    }
    bool holds(unsigned seed, std::size_t bytes = kRegionBytes) const {
        for (std::size_t i = 0; i < bytes; ++i)
            if (data()[i] != char((i * 2654435761u + seed) >> 13)) return false;
        return true;
    }

  private:
    void* memory_;
};

// This process's mover, connected by `line` to that of the other one.
std::unique_ptr<Mover> connect_mover(int rank, const Region& region, int line) {
    const auto exchange = [&](auto* values, std::size_t each) {
        const std::size_t bytes = each * sizeof(*values->data());
        if (send(line, values->data() + std::size_t(rank) * each, bytes, MSG_NOSIGNAL) != ssize_t(bytes) ||
            recv(line, values->data() + std::size_t(1 - rank) * each, bytes, 0) != ssize_t(bytes))
            throw std::runtime_error("the other process has ended");
    };
    std::unique_ptr<Mover> mover = make_mover(MoverKind::kVerbs, "");
    const std::vector<std::uint8_t> contact = mover->open(rank, kRanks);
    std::vector<std::uint8_t> contacts(contact.size() * kRanks);
    std::copy(contact.begin(), contact.end(), contacts.begin() + long(contact.size()) * rank);
    exchange(&contacts, contact.size());
    mover->join(contacts);
    std::vector<RegionHandle> handles(kRanks);
    handles[std::size_t(rank)] = mover->expose(region.data(), kRegionBytes);
    exchange(&handles, 1);
    mover->connect(handles);
    return mover;
}

// Another process with a region and a mover of its own, asleep. It is forked before a device is opened.
class Twin {
  public:
    Twin() {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lines_) != 0) throw std::bad_alloc();
        pid_ = fork();
        if (pid_ == 0) live();
        close(lines_[kTwins]);
    }
    ~Twin() {
        end();
        close(lines_[kMine]);
    }

    std::unique_ptr<Mover> connect(const Region& mine) { return connect_mover(kMine, mine, lines_[kMine]); }
    Region& region() { return region_; }

    void stop() {
        int status = 0;
        kill(pid_, SIGSTOP);
        waitpid(pid_, &status, WUNTRACED);
        EXPECT_TRUE(WIFSTOPPED(status));
    }
    void end() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

  private:
    [[noreturn]] void live() {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(lines_[kMine]);
        try {
            const std::unique_ptr<Mover> mover = connect_mover(kTwins, region_, lines_[kTwins]);
            for (;;) pause();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "the twin: %s\n", error.what());
        }
        _exit(1);
    }

    Region region_;
    int lines_[kRanks] = {-1, -1};
    pid_t pid_ = -1;
};

class VerbsMover : public testing::Test {
  protected:
    void SetUp() override {
        if (!why_not_built(MoverKind::kVerbs).empty() || !has_device())
            GTEST_SKIP() << "no RDMA device here; tests/rdma has one";
        twin_.emplace();
        mover_ = twin_->connect(mine_);
    }
    std::string wait() { return failure(*mover_); }

    Region mine_;
    std::optional<Twin> twin_;
    std::unique_ptr<Mover> mover_;
};

TEST_F(VerbsMover, ReadsAndWritesAtOffsetsOfThePeersRegion) {
    std::strcpy(mine_.data(), "...............");
    std::strcpy(twin_->region().data(), "0123456789abcde");
    mover_->read(kTwins, 10, 0, 3);
    mover_->wait_all();
    EXPECT_EQ(mine_.text(0, 15), "abc............");
    mover_->write(kTwins, 5, 1, 2);
    mover_->wait_all();
    EXPECT_EQ(twin_->region().text(0, 15), "01234bc789abcde");
    mover_->read(kTwins, 0, 8, 4);
    mover_->read(kMine, 0, 12, 2);  // from itself
    mover_->write(kMine, 14, 2, 1);
    mover_->wait_all();
    EXPECT_EQ(mine_.text(0, 15), "abc.....0123abc");
    EXPECT_NE(mover_->description().find("port 1"), std::string::npos) << mover_->description();
}

TEST_F(VerbsMover, MovesWholeRegionsWhileThePeerIsStopped) {
    twin_->stop();
    twin_->region().fill(1);
    mover_->read(kTwins, 0, 0, kRegionBytes);
    mover_->wait_all();
    EXPECT_TRUE(mine_.holds(1));
    mine_.fill(2);
    mover_->write(kTwins, 0, 0, kRegionBytes);
    mover_->wait_all();
    EXPECT_TRUE(twin_->region().holds(2));
}

TEST_F(VerbsMover, KeepsManyMoreTransfersThanItMayHaveInFlight) {
    constexpr std::size_t kEach = 777, kTransfers = 500;
    twin_->region().fill(3);
    for (std::size_t i = 0; i < kTransfers; ++i) mover_->read(kTwins, i * kEach, i * kEach, kEach);
    mover_->wait_all();
    EXPECT_TRUE(mine_.holds(3, kTransfers * kEach));
    EXPECT_FALSE(mine_.holds(3, kTransfers * kEach + 1));
}

TEST_F(VerbsMover, AFailureIsToldOnceByTheWaitAndSaysWhose) {
    mover_->write(kTwins, 0, kRegionBytes - 8, 9);
    EXPECT_NE(wait().find("leaves this process's region"), std::string::npos);
    EXPECT_EQ(wait(), "");
    mover_->read(kTwins, kRegionBytes - 8, 0, 9);
    const std::string error = wait();
    EXPECT_NE(error.find("cannot read the memory of rank 1"), std::string::npos) << error;
    EXPECT_NE(error.find("leaves what that rank has registered"), std::string::npos) << error;
    EXPECT_EQ(wait(), "");
    mover_->write(kTwins, 0, 0, 8);  // the connection is gone
    EXPECT_NE(wait().find("an earlier transfer to it has failed"), std::string::npos);
}

TEST_F(VerbsMover, AnEndedPeerIsFoundOutAndNotSpunFor) {
    twin_->end();
    mover_->write(kTwins, 0, 0, 8);
    Looker looker;
    const std::string error = wait();
    EXPECT_TRUE(looker.slept());
    EXPECT_NE(error.find("cannot write the memory of rank 1"), std::string::npos) << error;
    EXPECT_NE(error.find("has its process ended"), std::string::npos) << error;
}

TEST(VerbsMoverRefusal, SaysWhatToDo) {
    if (const std::string reason = why_not_built(MoverKind::kVerbs); !reason.empty()) {
        EXPECT_NE(reason.find("libibverbs-dev"), std::string::npos);
        EXPECT_EQ(refusal(""), reason);
        return;
    }
    for (const char* wrong : {"rxe0:", ":1", "rxe0:0", "rxe0:1x", "rxe0:256"})
        EXPECT_NE(refusal(wrong).find("NAME or NAME:PORT"), std::string::npos) << wrong;
    if (has_device()) {
        EXPECT_NE(refusal("no-such").find("no RDMA device no-such here, but "), std::string::npos);
        EXPECT_NE(refusal("no-such:1").find("no RDMA device no-such here, but "), std::string::npos);
    } else {
        for (const char* device : {"", "rxe0:1"})
            EXPECT_NE(refusal(device).find("there is no RDMA device here"), std::string::npos);
    }
}

}  // namespace
}  // namespace longshore::dpu_bench
