#include "dpu/rank/far_exchange.h"

#include <string.h>

namespace longshore {

void FarExchange::want(SessionExchange message) {
    // What all give goes back in one frame.
    if (message.bytes.size() > kSessionBytesMax / 2 / exchange_.size)
        return fail("what its stand-in gives is too long for a job of so many ranks");
    want_ = Want::kBytes;
    bytes_ = std::move(message.bytes);
}

void FarExchange::want(const SessionReady& message) {
    if (!message.ok) return fail(message.reason.empty() ? "it cannot be served" : message.reason);
    want_ = Want::kReady;
}

void FarExchange::fail(const std::string& reason) {
    if (!failed_) problem_ = reason;
    failed_ = true;
}

bool FarExchange::start(const void* mine, size_t bytes) {
    in_.assign(bytes * exchange_.size, std::byte{0});
    return exchange_.start(exchange_.user, mine, in_.data(), bytes) == LS_OK;
}

int FarExchange::end(const std::string& reason) {
    state_ = State::kOver;
    reason_ = reason;
    in_ = {};
    bytes_ = {};
    return reason.empty() ? LS_OK : LS_ERR_UNAVAILABLE;
}

int FarExchange::tell() {
    mine_ = {};
    mine_.want = failed_ ? Want::kFailure : want_;
    mine_.bytes = bytes_.size();
    problem_.copy(mine_.reason, sizeof mine_.reason - 1);
    state_ = State::kTelling;
    return start(&mine_, sizeof mine_) ? LS_IN_PROGRESS : end("the exchange between ranks failed");
}

// All have told. They go on together, or end together.
int FarExchange::compare(SessionStream* stream) {
    for (uint32_t r = 0; r < exchange_.size; ++r) {
        Intent theirs;
        memcpy(&theirs, in_.data() + r * sizeof theirs, sizeof theirs);
        theirs.reason[sizeof theirs.reason - 1] = 0;
        const bool same = theirs.want == mine_.want && theirs.bytes == mine_.bytes;
        if (theirs.want != Want::kFailure && same) continue;
        SessionExchange failure;
        failure.id = id_;
        failure.ok = false;
        stream->send(SessionKind::kExchanged, failure);
        return end(theirs.reason[0] != 0 ? theirs.reason : "the stand-ins of the ranks are out of step");
    }
    if (mine_.want == Want::kReady) return end("");
    state_ = State::kGiving;
    return start(bytes_.data(), bytes_.size()) ? LS_IN_PROGRESS : end("the exchange between ranks failed");
}

int FarExchange::test(SessionStream* stream) {
    if (state_ == State::kOver) return reason_.empty() ? LS_OK : LS_ERR_UNAVAILABLE;
    if (state_ == State::kIdle) return want_ != Want::kNothing || failed_ ? tell() : LS_IN_PROGRESS;
    const int rc = exchange_.test(exchange_.user);
    if (rc == LS_IN_PROGRESS) return rc;
    if (rc != LS_OK) return end("the exchange between ranks failed");
    if (state_ == State::kTelling) return compare(stream);
    SessionExchange received;
    received.id = id_;
    received.bytes = std::move(in_);
    stream->send(SessionKind::kExchanged, received);
    state_ = State::kIdle;
    want_ = Want::kNothing;
    idle_since_ns_ = awake_ns();
    return LS_IN_PROGRESS;
}

}  // namespace longshore
