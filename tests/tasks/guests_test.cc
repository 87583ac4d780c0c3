// Task processes for other nodes, as a supervisor keeps them: this process is the supervisor, and at the
// other ends of the streams the carriers.
#include "tasks/guests.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "fabric/shm/system.h"
#include "tasks/plugin_file.h"
#include "tests/tasks/functions.h"
#include "tests/tasks/played_door.h"

namespace longshore::tasks {
namespace {

constexpr uint64_t kLimitNs = 60'000'000'000;  // on a machine that is busy with other things

struct Heard {
    FrameHeader header;
    std::vector<std::byte> body, payload;
};

class Guests : public testing::Test {
  protected:
    Guests() {
        TaskGuests::Node node;
        node.node = 5;
        node.program = LONGSHORED;
        node.place = [this](const char* cores, uint32_t processes, uint32_t, std::string* error) {
            *error = "no cores";
            return std::vector<TaskPlace>(std::string(cores) == "none" ? 0 : processes);
        };
        node.tell = [this](const char* text) { said_.emplace_back(text); };
        node.admit = [this](OpenFrame*, std::string* error) {
            *error = refusal_;
            return refusal_.empty() ? 0 : LONGSHORE_ERR_PLUGIN;
        };
        guests_ = std::make_unique<TaskGuests>(std::move(node));
        guests_->open(std::make_unique<PlayedDoor>(&streams_, NodeId{3}));
    }
    // The carrier's end of a new stream.
    Fd connect() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        streams_.emplace_back(ends[1]);
        return Fd(ends[0]);
    }
    void turn() {
        pollfd ready{guests_->fd(), POLLIN, 0};
        poll(&ready, 1, 2);
        guests_->turn();
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) EXPECT_TRUE(guests_->reap(pid, status));
    }
    template <class Look>
    bool turn_until(Look look) {
        for (const uint64_t end = now_ns() + kLimitNs; !look() && now_ns() < end;) turn();
        return look();
    }
    static void say(const Fd& stream, std::span<const std::byte> bytes) {
        EXPECT_EQ(send(stream.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
    }
    template <class Frame>
    static void say(const Fd& stream, FrameKind kind, const Frame& frame,
                    std::span<const std::byte> payload = {}) {
        say(stream, make_frame(kind, frame, payload.size()));
        if (!payload.empty()) say(stream, payload);
    }
    // Nothing: the stream has ended.
    std::optional<std::vector<std::byte>> hear_bytes(const Fd& stream, size_t bytes) {
        std::vector<std::byte> heard(bytes);
        size_t at = 0;
        bool ended = false;
        EXPECT_TRUE(turn_until([&] {
            while (at < bytes && !ended) {
                const ssize_t got = recv(stream.get(), heard.data() + at, bytes - at, MSG_DONTWAIT);
                if (got < 0 && errno == EAGAIN) return false;
                ended = got <= 0;
                if (!ended) at += static_cast<size_t>(got);
            }
            return true;
        }));
        if (at < bytes) return std::nullopt;
        return heard;
    }
    std::optional<Heard> hear(const Fd& stream) {
        Heard heard;
        const auto header = hear_bytes(stream, kFrameHeaderBytes);
        if (!header) return std::nullopt;
        EXPECT_TRUE(decode_header(
            std::span<const std::byte, kFrameHeaderBytes>(header->data(), kFrameHeaderBytes), &heard.header));
        heard.body = hear_bytes(stream, heard.header.body_bytes).value();
        heard.payload = hear_bytes(stream, heard.header.payload_bytes).value();
        return heard;
    }
    template <class Frame>
    Frame hear_as(const Fd& stream, FrameKind kind, std::vector<std::byte>* payload = nullptr) {
        Frame frame;
        const auto heard = hear(stream);
        EXPECT_TRUE(heard.has_value());
        if (!heard) return frame;
        EXPECT_EQ(heard->header.kind, kind);
        EXPECT_TRUE(decode(heard->body, &frame));
        if (payload != nullptr) *payload = heard->payload;
        return frame;
    }
    static OpenFrame open_frame(const char* plugin = "task_plugin") {
        OpenFrame frame;
        frame.plugin = std::string(PLUGINS) + "/" + plugin + ".so";
        frame.directory = "/";
        const PluginFile file = look_at_plugin(frame.plugin.c_str());
        frame.plugin_bytes = file.bytes;
        frame.plugin_hash = file.hash;
        return frame;
    }
    // A stream whose process has loaded the plug-in and serves rank 1.
    Fd serve() {
        Fd stream = connect();
        say(stream, FrameKind::kOpen, open_frame());
        const auto loaded = hear_as<LoadedFrame>(stream, FrameKind::kLoaded);
        EXPECT_EQ(loaded.error, 0) << loaded.text;
        table_ = loaded.table;
        say(stream, FrameKind::kServe, ClientFrame{1});
        EXPECT_EQ(hear_as<ServingFrame>(stream, FrameKind::kServing).error, 0);
        return stream;
    }
    TaskFrame task(const char* function, std::span<const std::byte> arguments = {}) const {
        TaskFrame frame;
        frame.client = 1;
        while (frame.submission.function < table_.functions_count &&
               strcmp(table_.names[frame.submission.function], function) != 0)
            ++frame.submission.function;
        frame.submission.arguments_bytes = static_cast<uint32_t>(arguments.size());
        std::copy(arguments.begin(), arguments.end(), frame.submission.arguments);
        return frame;
    }
    bool has_said(const std::string& text) const {
        return std::any_of(said_.begin(), said_.end(),
                           [&](const std::string& line) { return line.find(text) != std::string::npos; });
    }

    std::deque<Fd> streams_;
    std::vector<std::string> said_;
    std::string refusal_;
    PluginTable table_;
    std::unique_ptr<TaskGuests> guests_;
};

TEST_F(Guests, ComputeWhatCarriersSend) {
    const Fd stream = serve();
    const uint64_t key = 7;
    TaskFrame frame = task("combine", std::as_bytes(std::span(&key, 1)));
    frame.submission.buffers_count = 3;
    const uint32_t access[] = {LONGSHORE_IN, LONGSHORE_INOUT, LONGSHORE_OUT};
    for (int i = 0; i < 3; ++i) {
        frame.submission.buffers[i].access = access[i];
        frame.submission.buffers[i].bytes = 2;
    }
    const std::byte sent[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    say(stream, FrameKind::kTask, frame, sent);
    EXPECT_EQ(hear_as<ClientFrame>(stream, FrameKind::kBegun).client, 1u);
    std::vector<std::byte> payload;
    EXPECT_EQ(hear_as<ResultFrame>(stream, FrameKind::kResult, &payload).result, 0);
    ASSERT_EQ(payload.size(), 4u);  // INOUT, then OUT
    EXPECT_EQ(payload[2], std::byte{combined(1, 3, key)});
    EXPECT_EQ(payload[3], std::byte{combined(2, 4, key + 1)});
    say(stream, FrameKind::kLeave, ClientFrame{1});
    EXPECT_EQ(hear_as<ClientFrame>(stream, FrameKind::kLeft).client, 1u);
}

TEST_F(Guests, EndWithTheirStream) {
    Fd stream = serve();
    EXPECT_FALSE(guests_->is_idle());
    stream.reset();
    EXPECT_TRUE(turn_until([&] { return guests_->is_idle(); }));
    EXPECT_TRUE(said_.empty());
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // there is no child
}

TEST_F(Guests, ThatCrashHaveSaidWhatTheyBegan) {
    const Fd stream = serve();
    say(stream, FrameKind::kTask, task("crash"));
    EXPECT_EQ(hear_as<ClientFrame>(stream, FrameKind::kBegun).client, 1u);
    EXPECT_FALSE(hear(stream).has_value());
    EXPECT_TRUE(turn_until([&] { return !said_.empty(); }));
    // The address sanitizer makes an exit code of the signal.
    EXPECT_TRUE(has_said("task process 0 of task_plugin.so on node 5, for node 3, was lost ("));
}

TEST_F(Guests, PrintToTheUser) {
    const Fd stream = serve();
    const int times = 3;
    say(stream, FrameKind::kTask, task("print", std::as_bytes(std::span(&times, 1))));
    EXPECT_TRUE(turn_until([&] { return said_.size() >= 3; }));
    EXPECT_TRUE(has_said("task process 0 of task_plugin.so on node 5, for node 3, prints: line 2"));
    hear(stream), hear(stream);
    // What has no end of a line is shown when the process has ended.
    say(stream, FrameKind::kTask, task("crash"));
    EXPECT_TRUE(turn_until([&] { return has_said("an error, without an end"); }));
}

TEST_F(Guests, DoNotPrintWithoutEnd) {
    const Fd stream = serve();
    const int times = 5000;
    say(stream, FrameKind::kTask, task("print", std::as_bytes(std::span(&times, 1))));
    hear(stream);
    EXPECT_EQ(hear_as<ResultFrame>(stream, FrameKind::kResult).result, 0);  // it was not held up
    EXPECT_TRUE(turn_until([&] { return has_said("prints more than is shown"); }));
    EXPECT_EQ(said_.size(), 1001u);
}

TEST_F(Guests, AreNotThereForWhoSaysSomethingElseFirst) {
    OpenFrame no_place = open_frame();
    no_place.index = no_place.processes;
    std::vector<std::byte> cut = make_frame(FrameKind::kOpen, open_frame());
    cut[8] = std::byte{static_cast<uint8_t>(std::to_integer<int>(cut[8]) - 1)};  // a body one byte shorter
    std::vector<std::byte> huge = make_frame(FrameKind::kOpen, open_frame());
    huge[11] = std::byte{0x7f};
    const std::vector<std::byte> all[] = {
        std::vector<std::byte>(kFrameHeaderBytes, std::byte{'x'}),
        make_frame(FrameKind::kServe, ClientFrame{1}),
        make_frame(FrameKind::kLoaded, LoadedFrame{}),
        make_frame(FrameKind::kOpen, no_place),
        cut,
        huge,
    };
    for (const auto& bytes : all) {
        const Fd stream = connect();
        say(stream, bytes);
        EXPECT_FALSE(hear(stream).has_value());
    }
    // Half a frame, and no more.
    Fd half = connect();
    say(half, std::span(cut).first(10));
    turn();
    EXPECT_FALSE(guests_->is_idle());
    half.reset();
    EXPECT_TRUE(turn_until([&] { return guests_->is_idle(); }));
    EXPECT_TRUE(said_.empty());
}

TEST_F(Guests, SayWhyTheyCannotBeStarted) {
    OpenFrame without_cores = open_frame(), another = open_frame(), gone = open_frame("none"),
              no_folder = open_frame();
    without_cores.cores = "none";
    ++another.plugin_hash;
    no_folder.directory = "/no/such/folder";
    struct {
        OpenFrame frame;
        int32_t error;
        const char* why;
    } const all[] = {{without_cores, LONGSHORE_ERR_NO_PROCESS, "no cores"},
                     {another, LONGSHORE_ERR_PLUGIN, "is another"},
                     {gone, LONGSHORE_ERR_PLUGIN, "cannot open shared object file"},
                     {no_folder, LONGSHORE_ERR_NO_PROCESS, "cannot go to /no/such/folder"}};
    for (const auto& one : all) {
        Fd stream = connect();
        say(stream, FrameKind::kOpen, one.frame);
        say(stream, FrameKind::kServe,
            ClientFrame{1});  // nobody reads it, and the answer arrives all the same
        const auto loaded = hear_as<LoadedFrame>(stream, FrameKind::kLoaded);
        EXPECT_EQ(loaded.error, one.error);
        EXPECT_NE(loaded.text.find(one.why), std::string::npos) << loaded.text;
        stream.reset();
        EXPECT_TRUE(turn_until([&] { return guests_->is_idle(); }));
    }
}

TEST_F(Guests, AreAdmittedFirst) {
    refusal_ = "not here";
    const Fd stream = connect();
    say(stream, FrameKind::kOpen, open_frame());
    const auto loaded = hear_as<LoadedFrame>(stream, FrameKind::kLoaded);
    EXPECT_EQ(loaded.error, LONGSHORE_ERR_PLUGIN);
    EXPECT_EQ(loaded.text, "not here");
    EXPECT_FALSE(hear(stream).has_value());
}

// The stream ends: its carrier is not what it says.
TEST_F(Guests, DoNotTakeWhatMakesNoSense) {
    TaskFrame stranger, too_little;
    for (int i = 0; i < 4; ++i) {
        const Fd stream = serve();
        stranger = task("note");
        stranger.client = 9;
        too_little = task("note");
        too_little.submission.buffers_count = 1;
        too_little.submission.buffers[0].access = LONGSHORE_IN;
        too_little.submission.buffers[0].bytes = 8;
        if (i == 0) say(stream, FrameKind::kServe, ClientFrame{1});
        if (i == 1) say(stream, FrameKind::kTask, stranger);
        if (i == 2) say(stream, FrameKind::kTask, too_little);
        if (i == 3) say(stream, FrameKind::kOpen, open_frame());
        EXPECT_FALSE(hear(stream).has_value()) << i;
    }
    // A function that there is not is the task's error, and no more.
    const Fd stream = serve();
    say(stream, FrameKind::kTask, task("no such function"));
    EXPECT_EQ(hear_as<ResultFrame>(stream, FrameKind::kResult).result, LONGSHORE_ERR_ARGUMENT);
    say(stream, FrameKind::kLeave, ClientFrame{1});
    EXPECT_EQ(hear_as<ClientFrame>(stream, FrameKind::kLeft).client, 1u);
}

}  // namespace
}  // namespace longshore::tasks
