#include "dpu/rank/agent_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dpu/host_agent/agent_control.h"

namespace longshore {

AgentClient::~AgentClient() {
    // Only closing it would not end it, where a forked child still has it.
    if (socket_ && pid_ == getpid()) shutdown(socket_.get(), SHUT_RDWR);
}

bool AgentClient::connect(const SocketName& name, const Token& token, int memory_file, uint64_t limit_s,
                          std::string* error) {
    if (!is_memory_file(memory_file, 0, nullptr)) {
        *error = "the shared memory of this rank cannot be handed on: its descriptor " +
                 std::to_string(memory_file) + " is closed, or something else by now";
        return false;
    }
    Fd socket = connect_to(name);
    pid_t agent = 0;
    if (!socket || !peer_is_same_user(socket, &agent)) {
        *error = std::string("cannot reach the agent of this machine: ") + strerror(socket ? EPERM : errno);
        return false;
    }
    socket_ = std::move(socket);
    pid_ = getpid();
    if (agent != pid_) agent_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, agent, 0)));
    limit_ns_ = limit_s * 1'000'000'000ull;
    AgentHello hello;
    hello.token = token;
    return ask(&hello, sizeof hello, {memory_file}, 0, nullptr, error);
}

bool AgentClient::open(uint64_t offset, uint64_t bytes, bool exports, OpenedMemory* out, std::string* error) {
    AgentOpen request;
    request.id = ++last_id_;
    request.offset = offset;
    request.bytes = bytes;
    request.exports = exports;
    *out = {request.id, 0, bytes, {}, {}};
    return ask(&request, sizeof request, {}, request.id, out, error);
}

void AgentClient::close(uint64_t id) {
    AgentClose request;
    request.id = id;
    unsent_.send_message(socket_, request);
}

// What comes of it if it is not answered is said when memory is to be opened.
void AgentClient::tell_copies(uint32_t rank, bool copies, uint64_t word_address, uint64_t word) {
    AgentCopies said;
    said.rank = rank;
    said.copies = copies;
    said.word_address = word_address;
    said.word = word;
    copies_ = copies;
    std::string error;
    ask(&said, sizeof said, {}, 0, nullptr, &error);
}

void AgentClient::stop_copies() {
    const AgentStopCopies stop;
    std::string error;
    if (std::exchange(copies_, false) && !ask(&stop, sizeof stop, {}, 0, nullptr, &error)) end_agent();
}

void AgentClient::withdraw() {
    if (last_id_ == 0 || std::exchange(withdrawn_, true)) return stop_copies();
    const AgentWithdraw words;
    std::string error;
    copies_ = false;
    if (!ask(&words, sizeof words, {}, 0, nullptr, &error)) end_agent();
}

// Where there is no room for it what was open stays, which costs memory and nothing else.
void AgentClient::leave() {
    const AgentLeave words;
    if (pid_ == getpid()) unsent_.send_message(socket_, words);
}

// One that is stopped in the middle of a copy would end it when the memory is the program's again.
void AgentClient::end_agent() const {
    if (!agent_ || syscall(SYS_pidfd_send_signal, agent_.get(), SIGKILL, nullptr, 0) != 0) return;
    pollfd ended{agent_.get(), POLLIN, 0};
    poll(&ended, 1, static_cast<int>(std::min<uint64_t>(limit_ns_ / 1'000'000, 60'000)));
}

// False: the time is over.
bool AgentClient::wait(short events, uint64_t end_ns) const {
    const int wait_ms = awake_wait_ms(end_ns);
    pollfd ready{socket_.get(), events, 0};
    if (wait_ms != 0) poll(&ready, 1, wait_ms);
    return wait_ms != 0;
}

bool AgentClient::ask(const void* packet, size_t bytes, const std::vector<int>& descriptors, uint64_t id,
                      OpenedMemory* out, std::string* error) {
    const uint64_t end = awake_ns() + limit_ns_;
    const auto fail = [&](const char* why) {
        *error = why;
        socket_.reset();
        unsent_.clear();
        return false;
    };
    constexpr const char *kLate = "the agent of this machine does not answer in time",
                         *kGone = "the agent of this machine is gone, or has refused this rank";
    if (!unsent_.send(socket_, {static_cast<const std::byte*>(packet), bytes}, descriptors))
        return fail(kGone);
    for (; !unsent_.empty(); unsent_.flush(socket_)) {
        if (!wait(POLLOUT, end)) return fail(kLate);
    }
    alignas(8) std::byte buffer[kAgentPacketBytesMax];
    size_t got = 0;
    Io io = Io::kAgain;
    while ((io = receive_packet(socket_, buffer, sizeof buffer, &got, nullptr)) == Io::kAgain) {
        if (!wait(POLLIN, end)) return fail(kLate);
    }
    AgentAnswer answer;
    if (io == Io::kClosed || got < sizeof answer) return fail(kGone);
    memcpy(static_cast<void*>(&answer), buffer, sizeof answer);
    if (answer.header.magic != kControlMagic || answer.header.kind != AgentKind::kAnswer || answer.id != id ||
        got != sizeof answer + uint64_t{answer.key_bytes} + answer.exported_bytes)
        return fail("the agent of this machine does not keep to the protocol");
    answer.reason[sizeof answer.reason - 1] = 0;
    if (!answer.ok) {
        *error = std::string("the agent of this machine: ") + answer.reason;
        return false;
    }
    if (out != nullptr) {
        out->address = answer.address;
        const std::byte* const key = buffer + sizeof answer;
        out->key.assign(key, key + answer.key_bytes);
        out->exported.assign(key + answer.key_bytes, key + answer.key_bytes + answer.exported_bytes);
    }
    return true;
}

}  // namespace longshore
