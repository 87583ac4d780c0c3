#include "dpu/host_agent/agent_copier.h"

#include <string.h>

#include <algorithm>
#include <utility>

namespace longshore {
namespace {

constexpr uint64_t kCopyPieceBytes = 256 * 1024;
constexpr size_t kHeardBytesMax = 4096;
constexpr size_t kAnswersUnsentBytesMax = 16 * 1024;

}  // namespace

AgentCopier::AgentCopier(const AgentParameters& job, uint32_t rank, Watch watch)
    : job_(job), rank_(rank), watch_(std::move(watch)) {
    const char* reason = "";
    connecting_ = start_connecting(job.dpu, &reason);
    if (connecting_ && !watch_(connecting_.get(), true)) connecting_.reset();
}

bool AgentCopier::finish_connecting() {
    const int connected = connect_result(connecting_);
    if (connected == 0) return true;
    if (connected < 0 || !watch_(connecting_.get(), false)) return false;
    stream_ = SessionStream(std::move(connecting_), job_.limit_s);
    SessionCopier hello;
    hello.job = job_.job;
    std::copy(job_.job_token.begin(), job_.job_token.end(), hello.token.begin());
    hello.rank = rank_;
    stream_.send(SessionKind::kCopier, hello);
    return true;
}

// False: it is over, or no stand-in says that.
bool AgentCopier::hear() {
    SessionKind kind{};
    std::span<const std::byte> body;
    while (stream_.receive(&kind, &body, kHeardBytesMax)) {
        SessionWelcome welcome;
        HandedCopy copy;
        const bool ok = !welcomed_ ? kind == SessionKind::kWelcome && decode(body, &welcome) && welcome.ok
                                   : kind == SessionKind::kCopy && decode(body, &copy) && copy.bytes != 0 &&
                                         handed_.take(copy, true);
        if (!ok) return false;
        welcomed_ = true;
    }
    return stream_.open();
}

void AgentCopier::answer(bool ok) {
    stream_.send(SessionKind::kCopied, SessionCopied{copying_.number, ok});
    copying_ = {};
    done_ = 0;
    looks_ = 0;
}

// A piece.
void AgentCopier::copy(RankHeaps& heaps) {
    if (copying_.bytes == 0 && !handed_.next(&copying_)) return;
    const uint64_t piece = std::min(kCopyPieceBytes, copying_.bytes - done_);
    std::byte* const from = heaps.find(copying_.giver, copying_.from + done_, piece);
    std::byte* const to = heaps.find(rank_, copying_.to + done_, piece);
    // The giver has told the agent who it is before anybody could be told of its buffers, but perhaps after
    // the agent last heard it.
    if (from == nullptr && looks_++ == 0) return;
    if (from == nullptr || to == nullptr) return answer(false);
    memmove(to, from, piece);
    done_ += piece;
    // The word is looked at after the bytes: whoever has let the buffer go had withdrawn it before.
    if (done_ == copying_.bytes) answer(heaps.holds(copying_.giver));
}

bool AgentCopier::turn(RankHeaps& heaps) {
    if (connecting_ && !finish_connecting()) return false;
    if (connecting_) return true;
    if (!stream_.open() || !hear()) return false;
    copy(heaps);
    stream_.flush();
    return stream_.unsent_bytes() <= kAnswersUnsentBytesMax;
}

}  // namespace longshore
