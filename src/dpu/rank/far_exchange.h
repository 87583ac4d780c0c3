// Exchanges that a stand-in on a DPU asks its rank for, in step with those of the other members. Before each
// all tell what they are about to do: so that a member whose stand-in is gone says it, and nobody waits for
// it.
#pragma once

#include <string>
#include <vector>

#include "dpu/session/stream.h"
#include "fabric/shm/control.h"
#include "host/host.h"

namespace longshore {

class FarExchange {
  public:
    FarExchange() = default;
    // `id`: of the group, 0: of the job.
    FarExchange(uint64_t id, const ls_exchange& exchange) : id_(id), exchange_(exchange) {}
    // What the stand-in wants next: to give bytes to all, or to be over. Or it is gone.
    void want(SessionExchange message);
    void want(const SessionReady& message);
    void fail(const std::string& reason);
    // LS_IN_PROGRESS, LS_OK when all are over and well, else an error and reason(), the same on all members.
    // What was received goes to the stand-in.
    int test(SessionStream* stream);
    const std::string& reason() const { return reason_; }
    // Since when it is the stand-in's turn; 0: it is not.
    uint64_t waits_since_ns() const {
        return state_ == State::kIdle && want_ == Want::kNothing && !failed_ ? idle_since_ns_ : 0;
    }

  private:
    enum class State : uint8_t { kIdle, kTelling, kGiving, kOver };
    enum class Want : uint32_t { kNothing, kBytes, kReady, kFailure };
    struct Intent {
        Want want = Want::kNothing;
        uint32_t reserved = 0;
        uint64_t bytes = 0;
        char reason[kReasonBytes] = {};
    };
    bool start(const void* mine, size_t bytes);
    int tell();
    int compare(SessionStream* stream);
    int end(const std::string& reason);

    uint64_t id_ = 0;
    ls_exchange exchange_{};
    State state_ = State::kIdle;
    Want want_ = Want::kNothing;
    bool failed_ = false;
    uint64_t idle_since_ns_ = awake_ns();
    Intent mine_;
    std::string problem_, reason_;
    std::vector<std::byte> bytes_, in_;
};

}  // namespace longshore
