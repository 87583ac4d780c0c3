// Both ends of a measurement that look all the time: where they run meanwhile.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/conversation.h"
#include "device/far_end.h"
#include "device/machine.h"
#include "device/network.h"

namespace longshore::device {
namespace {

std::vector<int> processors_of(pid_t thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(thread, sizeof set, &set), 0);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

// The far end of one connection, on a thread of its own.
class FarEnd {
  public:
    FarEnd() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        near_ = std::make_unique<Connection>(ends[0]);
        std::promise<pid_t> started;
        thread_ = std::thread([this, end = ends[1], &started] {
            started.set_value(gettid());
            Connection far(end);
            said_ = serve(far);
        });
        id_ = started.get_future().get();
    }
    ~FarEnd() {
        EXPECT_TRUE(ask(Pattern::kEnd, 0));
        thread_.join();
        EXPECT_EQ(said_, "");
    }
    // It has answered, and waits for the first message.
    bool ask(Pattern pattern, uint64_t count) {
        const Request request{Request::kMagic, Request::kVersion, pattern, 1, count};
        Answer answer;
        return near_->send(&request, sizeof request) && near_->receive(&answer, sizeof answer) &&
               answer.reply == Reply::kYes;
    }
    void echo() {
        char byte = 7;
        EXPECT_TRUE(near_->send(&byte, 1) && near_->receive(&byte, 1));
    }
    pid_t id() const { return id_; }

  private:
    std::unique_ptr<Connection> near_;
    std::thread thread_;
    pid_t id_ = 0;
    std::string said_;
};

TEST(Polling, TheFarEndKeepsTheLastProcessorWhileItLooks) {
    const std::vector<int> all = processors_of(0);
    FarEnd far;
    ASSERT_TRUE(far.ask(Pattern::kEchoPolled, 1));
    EXPECT_EQ(processors_of(far.id()), std::vector<int>{all.back()});
    far.echo();
    // And where it sleeps until something comes it runs anywhere.
    ASSERT_TRUE(far.ask(Pattern::kEcho, 1));
    EXPECT_EQ(processors_of(far.id()), all);
    far.echo();
}

// A far end that looks where the near end runs, each time that it waits for an answer, and does not poll.
class Watcher {
  public:
    explicit Watcher(pid_t near) : near_(near) {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof at;
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
        EXPECT_EQ(listen(listener_, 1), 0);
        EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &bytes), 0);
        address_ = {"127.0.0.1", std::to_string(ntohs(at.sin_port))};
        thread_ = std::thread([this] { watch(); });
    }
    ~Watcher() { close(listener_); }
    void join() { thread_.join(); }
    const NetworkAddress& address() const { return address_; }
    std::vector<std::vector<int>> while_asleep, while_polling;

  private:
    void watch() {
        Connection near(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
        std::vector<char> bytes(1 << 20);
        for (Request request; near.receive(&request, sizeof request);) {
            const bool polls = request.pattern == Pattern::kEchoPolled;
            (polls ? while_polling : while_asleep).push_back(processors_of(near_));
            Answer answer;
            if (polls) answer.reply = Reply::kUnknown;
            if (!near.send(&answer, sizeof answer) || polls) return;
            for (uint64_t i = 0; i < request.count; ++i)
                if (!near.receive(bytes.data(), request.bytes) || !near.send(bytes.data(), request.bytes))
                    return;
        }
    }

    const pid_t near_;
    int listener_ = -1;
    NetworkAddress address_;
    std::thread thread_;
};

TEST(Polling, TheNearEndKeepsTheFirstProcessorWhileItLooks) {
    const std::vector<int> all = processors_of(0);
    Watcher far(gettid());
    Effort effort;
    effort.quick = true, effort.network_repeats = 1;
    const Tell ignored = [](const std::string&) {};
    EXPECT_EQ(measure_network(
                  far.address(), {.tcp = true}, effort, [](const Row&) {}, ignored, ignored),
              "the far end does not do what it was asked for");
    far.join();
    EXPECT_FALSE(far.while_asleep.empty());
    for (const std::vector<int>& at : far.while_asleep) EXPECT_EQ(at, all);
    EXPECT_EQ(far.while_polling, std::vector<std::vector<int>>{{all.front()}});
    EXPECT_EQ(processors_of(0), all);
}

}  // namespace
}  // namespace longshore::device
