// For tests of the standing service: one that runs, and clients of it.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/little_endian.h"
#include "dpu/card/gate.h"
#include "fabric/shm/socket.h"

namespace longshore {

inline constexpr int kWaitMs = 60'000;  // on a machine that is busy with other things
inline constexpr uint64_t kMillisecondNs = 1'000'000;

inline SessionHello hello_of(uint64_t job, uint32_t rank, uint32_t size = 4, uint8_t token = 7) {
    SessionHello hello;
    hello.job = job;
    hello.token.fill(token);
    hello.rank = rank;
    hello.size = size;
    hello.service_count = 1;
    hello.service_reads_max = 4;
    hello.service_spin_us = 1000;
    hello.service_restarts_max = 16;
    hello.limit_s = 5;
    hello.eager_bytes = 16384;
    hello.chunk_bytes = 262144;
    hello.staging_bytes = 1 << 24;
    hello.cores = "auto";
    return hello;
}

// For the jobs of one service, which no other service of this test has, nor of another test that runs.
inline UserRange test_users(uint32_t count) {
    static uint32_t taken = 0;
    const uint32_t first = 1'000'000 + static_cast<uint32_t>(getpid()) % 1'000'000 * 1024 + taken;
    taken += count;
    return {first, first + count - 1};
}

// One with which a service of root serves several jobs at once.
inline GateConfig several_jobs() {
    GateConfig config;
    config.job_users = test_users(64);
    return config;
}

#define SKIP_UNLESS_ROOT() \
    if (geteuid() != 0) GTEST_SKIP() << "not root: no processes of other users can be started"

inline bool wait_for(const std::function<bool()>& look) {
    for (const uint64_t end = now_ns() + kWaitMs * kMillisecondNs; now_ns() < end;) {
        if (look()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return look();
}

// A connection to the service, and what is said there.
class Client {
  public:
    explicit Client(uint16_t port, const char* from = "127.0.0.1") {
        Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in own{}, there{};
        own.sin_family = there.sin_family = AF_INET;
        inet_pton(AF_INET, from, &own.sin_addr);
        inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
        there.sin_port = htons(port);
        EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
        EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&there), sizeof there), 0) << strerror(errno);
        stream_ = SessionStream(std::move(fd), 10);
    }
    Client(uint16_t port, const SessionHello& hello, const char* from = "127.0.0.1") : Client(port, from) {
        stream_.send(SessionKind::kHello, hello);
    }
    Client(uint16_t port, const SessionTasks& tasks, const char* from = "127.0.0.1") : Client(port, from) {
        stream_.send(SessionKind::kTasks, tasks);
    }
    Client(uint16_t port, const SessionCopier& copier) : Client(port) {
        stream_.send(SessionKind::kCopier, copier);
    }
    void send_raw(std::span<const std::byte> bytes) {
        EXPECT_EQ(::send(stream_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(bytes.size()));
    }
    void send_raw(const std::string& text) { send_raw(std::as_bytes(std::span(text))); }
    // So often, unless `reader`, the process at the other end, takes no more: then false. Where there is
    // something for it, who would read runs or waits for a core: it was seen asleep, and nothing was taken.
    bool send_often(const std::string& bytes, int times, pid_t reader) {
        constexpr int kLooks = 50;
        size_t sent = 0;
        int asleep = 0;
        for (const uint64_t end = now_ns() + 60'000 * kMillisecondNs;
             times > 0 && asleep < kLooks && now_ns() < end;) {
            const ssize_t took =
                ::send(stream_.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (took > 0) {
                asleep = 0;
                sent = (sent + static_cast<size_t>(took)) % bytes.size();
                times -= sent == 0;
            } else {
                const std::string stat = read_proc("/proc/" + std::to_string(reader) + "/stat");
                const size_t name_end = stat.rfind(") ");
                asleep += name_end != stat.npos && stat[name_end + 2] == 'S';
                usleep(1000);
            }
        }
        return asleep < kLooks;
    }
    void end_sending() { shutdown(stream_.fd(), SHUT_WR); }
    void close() { stream_.close(); }

    // "welcome", the reason why not, or "nothing".
    std::string answer() {
        SessionWelcome welcome;
        if (!hear(SessionKind::kWelcome)) return "nothing";
        if (!decode(body_, &welcome)) return "not decoded";
        return welcome.ok ? "welcome" : welcome.reason;
    }
    // Nothing, for as long as `ms`.
    bool hears_nothing(int ms) {
        pollfd ready{stream_.fd(), POLLIN, 0};
        return poll(&ready, 1, ms) == 0;
    }
    // What its stand-in says to the next message.
    std::string line() {
        SessionLine line;
        stream_.send(SessionKind::kDescribe, std::span<const std::byte>());
        return hear(SessionKind::kLine) && decode(body_, &line) ? line.text : "nothing";
    }
    // The stand-in says so once more.
    bool is_served() {
        stream_.send(SessionKind::kDescribe, std::span<const std::byte>());
        return hear(SessionKind::kLine);
    }
    bool is_closed_now() {
        SessionKind kind;
        std::span<const std::byte> body;
        stream_.receive(&kind, &body);
        return !stream_.open();
    }
    bool is_closed() {
        return wait_for([&] { return is_closed_now(); });
    }

  private:
    bool hear(SessionKind wanted) {
        SessionKind kind{};
        bool heard = false;
        wait_for([&] {
            heard = stream_.receive(&kind, &body_);
            return heard || !stream_.open();
        });
        return heard && kind == wanted;
    }
    SessionStream stream_;
    std::span<const std::byte> body_;
};

// A stand-in that welcomes its rank and answers each of its messages; one of job 13 dies of a signal instead,
// one of job 14 starts a process that outlives it, and names it, and one of job 15 waits for a connection at
// its door first, and welcomes that, too.
inline int serve(SessionStream stream, const SessionHello& hello, Fd door) {
    SessionWelcome welcome;
    welcome.ok = true;
    stream.send(SessionKind::kWelcome, welcome);
    std::vector<Fd> agents;
    while (stream.open()) {
        pollfd ready{stream.fd(), POLLIN, 0};
        poll(&ready, 1, -1);
        SessionKind kind;
        std::span<const std::byte> body;
        while (stream.receive(&kind, &body)) {
            if (hello.job == 13) kill(getpid(), SIGKILL);
            std::string said;
            if (hello.job == 14) {
                const pid_t other = fork();
                if (other == 0) {
                    stream.close();
                    for (;;) pause();
                }
                said = std::to_string(other);
            }
            if (hello.job == 15) {
                pollfd came{door.get(), POLLIN, 0};
                poll(&came, 1, kWaitMs);
                std::byte nothing[8];
                size_t bytes = 0;
                receive_packet(door, nothing, sizeof nothing, &bytes, &agents);
                if (agents.empty()) return 1;
                SessionStream agent(std::move(agents.back()), 5);
                agent.send(SessionKind::kWelcome, welcome);
                agent.flush();
                said = "an agent";
            }
            stream.send(SessionKind::kLine, SessionLine{0, said});
        }
    }
    return 0;
}

// A guard that welcomes its carrier, tells the folders that it was given, and stays.
inline int guard(SessionStream stream, const SessionTasks&, const std::vector<std::string>& folders) {
    stream.send(SessionKind::kWelcome, SessionWelcome{true, ""});
    stream.send(SessionKind::kLine, SessionLine{0, folders.front()});
    for (;;) pause();
}

// A program whose log is read: either the service with the stand-in above, or longshored itself.
class Service {
  public:
    // `user`: as whom it runs, where this test is root's; 0: as root.
    explicit Service(GateConfig config, Gate::Reread reread = {}, uint32_t user = 0) {
        config.address = "127.0.0.1";
        config.port = 0;
        begin([&] {
            if (user != 0 && user != geteuid() && !become_user(user)) return 1;
            Gate gate(config, serve, std::move(reread), guard);
            std::string error;
            return gate.listen(&error) ? gate.run() : 1;
        });
        find_port();
    }
    explicit Service(std::vector<std::string> words) {
        begin([&] {
            std::vector<char*> arguments{const_cast<char*>(LONGSHORED_PATH), const_cast<char*>("listen")};
            for (std::string& word : words) arguments.push_back(word.data());
            arguments.push_back(nullptr);
            dup2(STDERR_FILENO, STDOUT_FILENO);
            return execv(LONGSHORED_PATH, arguments.data());
        });
    }
    ~Service() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            end();
        }
    }
    void find_port() {
        const std::string before = "listening at 127.0.0.1:";
        ASSERT_TRUE(wait_for([&] {
            const size_t at = log().find(before);
            if (at == said_.npos || said_.find('\n', at) == said_.npos) return false;
            port_ = static_cast<uint16_t>(std::stoi(said_.substr(at + before.size())));
            return true;
        })) << log();
    }
    uint16_t port() const { return port_; }
    void signal(int number) const { kill(pid_, number); }
    // Its stand-ins, in the order in which they were started.
    std::vector<pid_t> stand_ins() const {
        const std::string pid = std::to_string(pid_);
        std::istringstream list(read_proc("/proc/" + pid + "/task/" + pid + "/children"));
        return {std::istream_iterator<pid_t>(list), std::istream_iterator<pid_t>()};
    }
    int end() {
        int status = -1;
        waitpid(pid_, &status, 0);
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    const std::string& log() {
        char text[4096];
        for (ssize_t got; (got = read(log_.get(), text, sizeof text)) > 0;)
            said_.append(text, static_cast<size_t>(got));
        return said_;
    }
    bool says(const std::string& text) {
        return wait_for([&] { return log().find(text) != std::string::npos; });
    }

  private:
    template <class Run>
    void begin(Run run) {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(ends[1], STDERR_FILENO);
            _exit(run());
        }
        close(ends[1]);
        log_.reset(ends[0]);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    Fd log_;
    std::string said_;
    pid_t pid_ = 0;
    uint16_t port_ = 0;
};

inline std::string frame(uint32_t length, uint16_t kind, std::span<const std::byte> body) {
    std::string out(kSessionHeaderBytes + body.size(), '\0');
    Writer w(reinterpret_cast<std::byte*>(out.data()), out.size());
    w.put(length);
    w.put(kind);
    w.put(uint16_t{0});
    w.put_bytes(body);
    return out;
}

inline std::string hello_frame(std::span<const std::byte> body) {
    return frame(static_cast<uint32_t>(body.size()), static_cast<uint16_t>(SessionKind::kHello), body);
}

inline std::string answer_to(const Service& service, const std::string& bytes) {
    Client client(service.port());
    client.send_raw(bytes);
    const std::string answer = client.answer();
    EXPECT_TRUE(client.is_closed());
    return answer;
}

}  // namespace longshore
