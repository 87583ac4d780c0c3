// Client, pools and task processes without MPI: this process is the rank, and one thread of it the
// supervisor.
#include <gtest/gtest.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fabric/shm/socket.h"
#include "tasks/client.h"
#include "tasks/pools.h"
#include "tests/tasks/functions.h"

namespace longshore::tasks {
namespace {

// Takes connections, whose first packet opens a pool, as a node's supervisor does.
class Supervisor {
  public:
    explicit Supervisor(uint32_t restarts_max) {
        Token token;
        EXPECT_TRUE(make_secret(&name_, &token));
        listener_ = listen_at(name_);
        TaskPools::Node node;
        node.rank_count = 1;
        node.restarts_max = restarts_max;
        node.program = LONGSHORED;
        node.place = [](const char*, uint32_t processes, uint32_t, std::string*) {
            return std::vector<TaskPlace>(processes);
        };
        node.tell = [this](const char* text) {
            const std::lock_guard lock(mutex_);
            said_ += std::string(text) + "\n";
        };
        pools_ = std::make_unique<TaskPools>(std::move(node));
        thread_ = std::thread([this] { run(); });
    }
    ~Supervisor() {
        over_ = true;
        thread_.join();
    }
    const SocketName& name() const { return name_; }
    std::string said() {
        const std::lock_guard lock(mutex_);
        return said_;
    }

  private:
    void run() {
        while (!over_) {
            pollfd ready[] = {{listener_.get(), POLLIN, 0}, {pools_->fd(), POLLIN, 0}};
            poll(ready, 2, 2);
            while (Fd socket = accept_from(listener_)) take(std::move(socket));
            pools_->turn();
            int status = 0;
            for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
                EXPECT_TRUE(pools_->reap(pid, status));
        }
        pools_->stop();
    }
    void take(Fd socket) {
        std::vector<std::byte> buffer(sizeof(OpenPool));
        std::vector<Fd> descriptors;
        size_t bytes = 0;
        Io io = Io::kAgain;
        while ((io = receive_packet(socket, buffer.data(), buffer.size(), &bytes, &descriptors)) ==
               Io::kAgain)
            usleep(100);
        ASSERT_EQ(io, Io::kOk);
        OpenPool request;
        ASSERT_EQ(bytes, sizeof request);
        memcpy(static_cast<void*>(&request), buffer.data(), sizeof request);
        pools_->open(std::move(socket), getpid(), request, std::move(descriptors));
    }

    SocketName name_;
    Fd listener_;
    std::unique_ptr<TaskPools> pools_;
    std::mutex mutex_;
    std::string said_;
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

const longshore_task_functions kFunctions{};

class Channel : public testing::Test {
  protected:
    int open(const char* plugin, uint32_t processes = 1) {
        Client::Options options;
        options.door = supervisor_.name();
        options.request.processes = processes;
        snprintf(options.request.plugin, sizeof options.request.plugin, "%s/%s.so", PLUGINS, plugin);
        EXPECT_NE(getcwd(options.request.directory, sizeof options.request.directory), nullptr);
        options.stderr_file = STDERR_FILENO;
        snprintf(options.request.environment, sizeof options.request.environment, "%s", environment_.c_str());
        options.request.environment_bytes = static_cast<uint32_t>(environment_.size());
        options.limit_s = 60;
        options.progress = [this] { ++progressed_; };
        options.report = [](const std::string&) {};
        return Client::open(std::move(options), &kFunctions, &client_, &error_);
    }
    RankTask* submit(const char* function, const void* arguments, size_t bytes,
                     std::vector<longshore_buffer> buffers) {
        RankTask* task = nullptr;
        EXPECT_EQ(client_->submit(function, arguments, bytes, buffers, &task, &error_), 0) << error_;
        return task;
    }
    int run(const char* function, const void* arguments, size_t bytes,
            std::vector<longshore_buffer> buffers) {
        RankTask* const task = submit(function, arguments, bytes, std::move(buffers));
        client_->wait(*task);
        return client_->take(*task, &error_);
    }

    Supervisor supervisor_{2};
    std::unique_ptr<Client> client_;
    std::string error_, environment_;
    int progressed_ = 0;
};

TEST_F(Channel, ComputesOnCopies) {
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    const uint64_t key = 11;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100'000}}) {
        std::vector<unsigned char> in(bytes, 1), inout(bytes, 2), out(bytes);
        ASSERT_EQ(run("combine", &key, sizeof key,
                      {{in.data(), bytes, LONGSHORE_IN},
                       {inout.data(), bytes, LONGSHORE_INOUT},
                       {out.data(), bytes, LONGSHORE_OUT}}),
                  0)
            << error_;
        for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(out[i], combined(1, 2, key + i));
        EXPECT_EQ(inout, std::vector<unsigned char>(bytes, 3));
    }
    longshore_pool_counters counters;
    client_->counters(&counters);
    EXPECT_EQ(counters.tasks, 3u);
    // In, inout and out are read; inout and out are written back.
    EXPECT_EQ(counters.bytes_copied, 5u * 100'001);
    EXPECT_EQ(client_->close(0), 0u);
}

TEST_F(Channel, MapsASharedHeap) {
    constexpr size_t kBytes = 1 << 20;
    const Fd file = make_memory_file("heap", kBytes);
    // Behind it there is nothing.
    auto* const heap =
        static_cast<std::byte*>(mmap(nullptr, 64 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(mmap(heap, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0), MAP_FAILED);
    Client::Options options;
    options.door = supervisor_.name();
    options.request.processes = 1;
    options.request.heap = {reinterpret_cast<uint64_t>(heap), 64 * kBytes};  // it may grow
    options.heap_file = file.get();
    snprintf(options.request.plugin, sizeof options.request.plugin, "%s/task_plugin.so", PLUGINS);
    snprintf(options.request.directory, sizeof options.request.directory, "/");
    options.progress = [] {};
    ASSERT_EQ(Client::open(std::move(options), &kFunctions, &client_, &error_), 0) << error_;
    auto* const words = reinterpret_cast<uint64_t*>(heap + 4096);
    for (uint64_t i = 1; i <= 5; ++i) {
        ASSERT_EQ(run("note", nullptr, 0, {{words, 8192, LONGSHORE_INOUT}}), 0) << error_;
        EXPECT_EQ(words[0], i);
    }
    longshore_pool_counters counters;
    client_->counters(&counters);
    EXPECT_EQ(counters.bytes_copied, 0u);
    EXPECT_EQ(counters.bytes_mapped, 5u * 8192);
    // Said to be in the heap, but behind the file's end: it is read where the rank has it, which is nowhere.
    EXPECT_EQ(run("note", nullptr, 0, {{heap + 2 * kBytes, 4096, LONGSHORE_INOUT}}), LONGSHORE_ERR_MEMORY);
}

TEST_F(Channel, FailsTheTaskThatCrashesAndRunsTheOthersOnce) {
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    uint64_t word = 0;
    const longshore_buffer buffer{&word, sizeof word, LONGSHORE_INOUT};
    for (int lives = 0; lives < 2; ++lives) {
        RankTask* const lost = submit("crash", nullptr, 0, {});
        RankTask* const behind = submit("note", nullptr, 0, {buffer});
        client_->wait(*lost);
        EXPECT_EQ(client_->take(*lost, &error_), LONGSHORE_ERR_LOST);
        EXPECT_NE(error_.find("'crash'"), std::string::npos) << error_;
        client_->wait(*behind);
        EXPECT_EQ(client_->take(*behind, &error_), 0) << error_;
    }
    EXPECT_EQ(word, 2u);
    // As often as it is started again; then all that is open and to come fails.
    RankTask* const last = submit("crash", nullptr, 0, {});
    RankTask* const never = submit("note", nullptr, 0, {buffer});
    for (RankTask* task : {last, never}) {
        client_->wait(*task);
        EXPECT_EQ(client_->take(*task, &error_), LONGSHORE_ERR_LOST);
    }
    RankTask* refused = nullptr;
    EXPECT_EQ(client_->submit("note", nullptr, 0, std::span(&buffer, 1), &refused, &error_),
              LONGSHORE_ERR_LOST);
    EXPECT_NE(error_.find("not started again"), std::string::npos) << error_;
    EXPECT_EQ(word, 2u);
    client_.reset();
    EXPECT_EQ(open("task_plugin"), LONGSHORE_ERR_NO_PROCESS);
}

TEST_F(Channel, StartsAgainASuccessorThatIsLostWhileItLoads) {
    std::string file = (std::filesystem::temp_directory_path() / "end-once.XXXXXX").string();
    const Fd made(mkstemp(file.data()));
    environment_ = "LONGSHORE_TASK_TEST_END_ONCE=" + file + ".now";
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    ASSERT_EQ(rename(file.c_str(), (file + ".now").c_str()), 0);
    uint64_t word = 0;
    RankTask* const lost = submit("crash", nullptr, 0, {});
    RankTask* const behind = submit("note", nullptr, 0, {{&word, sizeof word, LONGSHORE_INOUT}});
    client_->wait(*lost);
    EXPECT_EQ(client_->take(*lost, &error_), LONGSHORE_ERR_LOST);
    client_->wait(*behind);
    EXPECT_EQ(client_->take(*behind, &error_), 0) << error_;
    EXPECT_EQ(word, 1u);
    EXPECT_NE(access((file + ".now").c_str(), F_OK), 0) << "no successor was lost";
}

TEST_F(Channel, SaysWhyAPluginCannotBeUsed) {
    EXPECT_EQ(open("no_such"), LONGSHORE_ERR_PLUGIN);
    EXPECT_NE(error_.find("no_such"), std::string::npos) << error_;
    for (const char* bad : {"bad_plugin_1", "bad_plugin_2", "bad_plugin_5"})
        EXPECT_EQ(open(bad), LONGSHORE_ERR_PLUGIN) << error_;
    EXPECT_EQ(open("bad_plugin_3"), 9) << error_;
    EXPECT_EQ(open("bad_plugin_4"), LONGSHORE_ERR_NO_PROCESS) << error_;
}

TEST_F(Channel, OneProcessServesOnePoolAfterTheOther) {
    for (int pools = 0; pools < 3; ++pools) {
        ASSERT_EQ(open("task_plugin"), 0) << error_;
        uint64_t calls = 0;
        EXPECT_EQ(run("count", nullptr, 0, {{&calls, sizeof calls, LONGSHORE_OUT}}), 0) << error_;
        EXPECT_EQ(calls, 1u) << "each has a state of its own";
        EXPECT_EQ(client_->close(0), 0u);
    }
    EXPECT_EQ(supervisor_.said(), "");
}

TEST_F(Channel, SeveralProcessesHaveStatesOfTheirOwn) {
    ASSERT_EQ(open("task_plugin", 3), 0) << error_;
    uint64_t seen[6] = {};
    for (uint64_t& one : seen)
        ASSERT_EQ(run("count", nullptr, 0, {{&one, sizeof one, LONGSHORE_OUT}}), 0) << error_;
    for (int i = 0; i < 6; ++i) EXPECT_EQ(seen[i], static_cast<uint64_t>(1 + i / 3));
}

// What is given once: `combine` reads it as its first buffer.
class Kept : public Channel {
  protected:
    int finish(RankTask* task) {
        client_->wait(*task);
        return client_->take(*task, &error_);
    }
    RankTask* keep(const void* data, size_t bytes, bool is_change = false) {
        RankTask* task = nullptr;
        EXPECT_EQ(client_->keep(data, bytes, is_change, &task, &error_), 0) << error_;
        return task;
    }
    // What a task sees of `bytes` at `data`, or the error.
    int read(const unsigned char* data, size_t bytes, std::vector<unsigned char>* seen) {
        const uint64_t key = 0;
        std::vector<unsigned char> none(bytes), out(bytes);
        const int result = run("combine", &key, sizeof key,
                               {{const_cast<unsigned char*>(data), bytes, LONGSHORE_KEPT},
                                {none.data(), bytes, LONGSHORE_INOUT},
                                {out.data(), bytes, LONGSHORE_OUT}});
        *seen = out;
        return result;
    }
    static std::vector<unsigned char> expected(const std::vector<unsigned char>& in, size_t from,
                                               size_t bytes) {
        std::vector<unsigned char> out(bytes);
        for (size_t i = 0; i < bytes; ++i) out[i] = combined(in[from + i], 0, i);
        return out;
    }
    std::vector<unsigned char> seen_;
};

TEST_F(Kept, IsReadAsItWasGivenAndChanged) {
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    std::vector<unsigned char> data(100'000, 7);
    ASSERT_EQ(finish(keep(data.data(), data.size())), 0) << error_;
    std::vector<unsigned char> given = data;
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i % 253);
    // The program's own memory has changed, and nothing was said.
    ASSERT_EQ(read(data.data(), data.size(), &seen_), 0) << error_;
    EXPECT_EQ(seen_, expected(given, 0, given.size()));
    longshore_pool_counters before, after;
    client_->counters(&before);
    RankTask* const change = keep(data.data() + 50'000, 100, true);
    std::copy_n(data.begin() + 50'000, 100, given.begin() + 50'000);
    ASSERT_EQ(read(data.data() + 49'990, 120, &seen_), 0)
        << "a part, and behind a change that is not waited for";
    EXPECT_EQ(seen_, expected(given, 49'990, 120));
    EXPECT_EQ(finish(change), 0) << error_;
    client_->counters(&after);
    EXPECT_EQ(after.bytes_copied - before.bytes_copied, 100 + 4 * 120u)
        << "of the kept buffer only what changed";
    ASSERT_EQ(finish(keep(data.data(), data.size())), 0) << error_;
    ASSERT_EQ(read(data.data(), data.size(), &seen_), 0) << error_;
    EXPECT_EQ(seen_, expected(data, 0, data.size()));
}

TEST_F(Kept, EveryProcessHasACopy) {
    ASSERT_EQ(open("task_plugin", 3), 0) << error_;
    std::vector<unsigned char> data(1000, 3);
    RankTask* const kept = keep(data.data(), data.size());
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(read(data.data(), data.size(), &seen_), 0) << error_;
        EXPECT_EQ(seen_, expected(data, 0, data.size()));
    }
    EXPECT_EQ(finish(kept), 0) << error_;
    EXPECT_EQ(client_->take(*kept, &error_), LONGSHORE_ERR_ARGUMENT) << "waited for twice";
    EXPECT_EQ(client_->forget(data.data(), &error_), 0) << error_;
    EXPECT_EQ(client_->close(0), 0u);
}

TEST_F(Kept, IsLostWithItsProcessUntilItIsGivenAgain) {
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    std::vector<unsigned char> data(5000, 9);
    ASSERT_EQ(finish(keep(data.data(), data.size())), 0) << error_;
    RankTask* const lost = submit("crash", nullptr, 0, {});
    EXPECT_EQ(finish(lost), LONGSHORE_ERR_LOST);
    EXPECT_EQ(read(data.data(), data.size(), &seen_), LONGSHORE_ERR_LOST);
    EXPECT_NE(error_.find("keep it again"), std::string::npos) << error_;
    EXPECT_EQ(finish(keep(data.data() + 1, 10, true)), LONGSHORE_ERR_LOST);
    EXPECT_NE(error_.find("longshore_keep"), std::string::npos) << error_;
    EXPECT_EQ(finish(keep(data.data(), data.size())), 0) << error_;
    EXPECT_EQ(read(data.data(), data.size(), &seen_), 0) << error_;
    EXPECT_EQ(seen_, expected(data, 0, data.size()));
}

TEST_F(Kept, WhatCannotBeKeptIsSaid) {
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    std::vector<unsigned char> data(5000, 9);
    RankTask* task = nullptr;
    EXPECT_EQ(client_->keep(data.data(), 10, true, &task, &error_), LONGSHORE_ERR_ARGUMENT);
    EXPECT_EQ(client_->forget(data.data(), &error_), LONGSHORE_ERR_ARGUMENT);
    ASSERT_EQ(finish(keep(data.data() + 1000, 1000)), 0) << error_;
    for (const auto& [from, bytes] : {std::pair{0, 1001}, {1999, 1}, {1000, 999}, {1000, 1001}, {0, 5000}}) {
        EXPECT_EQ(client_->keep(data.data() + from, static_cast<size_t>(bytes), false, &task, &error_),
                  LONGSHORE_ERR_ARGUMENT);
        EXPECT_NE(error_.find("overlaps"), std::string::npos) << error_;
    }
    const longshore_buffer beyond{data.data() + 1500, 501, LONGSHORE_KEPT};
    EXPECT_EQ(client_->submit("note", nullptr, 0, std::span(&beyond, 1), &task, &error_),
              LONGSHORE_ERR_ARGUMENT);
    EXPECT_NE(error_.find("buffer 0"), std::string::npos) << error_;
    EXPECT_EQ(client_->forget(data.data() + 1500, &error_), LONGSHORE_ERR_ARGUMENT) << "none begins there";
    EXPECT_EQ(client_->forget(data.data() + 1000, &error_), 0) << error_;
    const longshore_buffer gone{data.data() + 1000, 1000, LONGSHORE_KEPT};
    EXPECT_EQ(client_->submit("note", nullptr, 0, std::span(&gone, 1), &task, &error_),
              LONGSHORE_ERR_ARGUMENT);
    // Memory that ends: the copy is not made, and later it is.
    auto* const pages = static_cast<unsigned char*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    EXPECT_EQ(finish(keep(pages, 8192)), LONGSHORE_ERR_MEMORY);
    EXPECT_EQ(read(pages, 100, &seen_), LONGSHORE_ERR_LOST);
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_READ), 0);
    EXPECT_EQ(finish(keep(pages, 8192)), 0) << error_;
    EXPECT_EQ(read(pages, 100, &seen_), 0) << error_;
    munmap(pages, 8192);
}

TEST_F(Kept, WithoutCreditsNothingIsKept) {
    ASSERT_EQ(open("task_plugin"), 0) << error_;
    std::string file = (std::filesystem::temp_directory_path() / "held.XXXXXX").string();
    const Fd made(mkstemp(file.data()));
    const std::string wanted = file + ".go";
    std::vector<RankTask*> tasks{submit("wait_for_file", wanted.c_str(), wanted.size() + 1, {})};
    const int zero = 0;
    while (tasks.size() < LONGSHORE_TASKS_MAX) tasks.push_back(submit("give", &zero, sizeof zero, {}));
    unsigned char data[10] = {};
    RankTask* task = nullptr;
    EXPECT_EQ(client_->keep(data, sizeof data, false, &task, &error_), LONGSHORE_ERR_FULL);
    EXPECT_EQ(client_->forget(data, &error_), LONGSHORE_ERR_ARGUMENT);
    ASSERT_EQ(rename(file.c_str(), wanted.c_str()), 0);
    for (RankTask* one : tasks) EXPECT_EQ(finish(one), 0) << error_;
    EXPECT_EQ(finish(keep(data, sizeof data)), 0) << error_;
    unlink(wanted.c_str());
}

TEST(KeptRanges, HaveALimit) {
    KeptRanges ranges;
    const char* why = nullptr;
    for (uint64_t i = 0; i < LONGSHORE_KEPT_MAX; ++i) ASSERT_NE(ranges.add(i * 10 + 10, 10, &why), nullptr);
    EXPECT_EQ(ranges.add(5, 5, &why), nullptr);
    EXPECT_NE(std::string(why).find("LONGSHORE_KEPT_MAX"), std::string::npos);
    EXPECT_NE(ranges.add(10, 10, &why), nullptr) << "again the same";
    EXPECT_EQ(ranges.find(15, 6), nullptr) << "two that touch are two";
    KeptRanges::Range first;
    ASSERT_TRUE(ranges.remove(10, &first));
    const KeptRanges::Range* const again = ranges.add(10, 10, &why);
    ASSERT_NE(again, nullptr);
    EXPECT_NE(again->number, first.number);
}

TEST(KeptCopies, EndWhereTheirBufferDoes) {
    KeptCopies copies;
    ASSERT_NE(copies.make(4, 100), nullptr);
    EXPECT_NE(copies.find(4, 100, 0), nullptr);
    EXPECT_EQ(copies.find(4, 100, 1), nullptr) << "its memory is a page, its bytes are not";
    EXPECT_EQ(copies.find(4, 101, 0), nullptr);
    EXPECT_EQ(copies.find(4, UINT64_MAX, 2), nullptr);
    EXPECT_EQ(copies.find(4, 2, UINT64_MAX), nullptr);
    EXPECT_EQ(copies.find(3, 0, 1), nullptr);
    EXPECT_EQ(copies.make(5, UINT64_MAX), nullptr);
    for (uint64_t number = 5; number < 4 + LONGSHORE_KEPT_MAX; ++number)
        ASSERT_NE(copies.make(number, 1), nullptr);
    EXPECT_EQ(copies.make(1000, 1), nullptr);
    EXPECT_NE(copies.make(4, 1), nullptr) << "in the place of its former one";
    copies.forget(4);
    EXPECT_EQ(copies.find(4, 0, 1), nullptr);
}

}  // namespace
}  // namespace longshore::tasks
