#include "dpu/card/agent_end.h"

#include <utility>
#include <vector>

#include "fabric/shm/socket.h"

namespace longshore {
namespace {

constexpr size_t kAnswerBytesMax = 64;  // of an agent, which only answers
constexpr size_t kCopiesUnsentBytesMax = 16 * 1024;

}  // namespace

bool AgentEnd::hear_door() {
    if (!door_) return false;
    std::byte nothing[8];
    size_t count = 0;
    std::vector<Fd> sockets;
    const Io io = receive_packet(door_, nothing, sizeof nothing, &count, &sockets);
    if (io == Io::kAgain) return false;
    // The standing service has ended; or one has come, and there will be no other.
    door_.reset();
    if (io != Io::kOk || sockets.size() != 1) return false;
    stream_ = SessionStream(std::move(sockets[0]), limit_s_);
    stream_.send(SessionKind::kWelcome, SessionWelcome{true, ""});
    handed_.attend(true);
    return true;
}

// False: no agent says this.
bool AgentEnd::take(SessionKind kind, std::span<const std::byte> body, const Settle& settle) {
    SessionCopied copied;
    Copy copy;
    if (kind != SessionKind::kCopied || !decode(body, &copied) || !handed_.take_back(copied.number, &copy))
        return false;
    settle(copy, copied.ok);
    return true;
}

bool AgentEnd::hear(const Settle& settle) {
    bool heard = hear_door();
    SessionKind kind{};
    std::span<const std::byte> body;
    while (stream_.open() && stream_.receive(&kind, &body, kAnswerBytesMax)) {
        heard = true;
        if (!take(kind, body, settle)) stream_.end();
    }
    if (stream_.open() && stream_.unsent_bytes() > kCopiesUnsentBytesMax) stream_.end();
    if (stream_.open()) return heard;
    // Nobody knows what it has copied, and service processes reach the host by it alone.
    for (Copy copy; handed_.lose(&copy); heard = true) settle(copy, false);
    return heard;
}

void AgentEnd::give(const Copy& copy, uint32_t giver, uint64_t from, uint64_t to) {
    stream_.send(SessionKind::kCopy, HandedCopy{handed_.give(copy), 0, giver, from, to, copy.bytes});
}

}  // namespace longshore
