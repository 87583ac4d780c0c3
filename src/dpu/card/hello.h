// A rank's first frame, or that of a carrier of its tasks or of its host's agent, as it arrives from somebody
// of whom nothing is known: nothing after it is read, nothing of it is believed.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "dpu/card/gate_refusal.h"
#include "dpu/session/session.h"
#include "dpu/session/stream.h"

namespace longshore {

class HelloReader {
  public:
    // Takes from the socket what is there of the frame, and nothing that follows it.
    enum class State : uint8_t { kPartial, kWhole, kTasks, kCopier, kQuestion, kRefused };
    State read(int socket);

    const SessionHello& hello() const { return hello_; }  // kWhole
    const SessionTasks& tasks() const { return tasks_; }  // kTasks: of a carrier, which is no rank
    bool is_of_tasks() const { return kind_ == SessionKind::kTasks; }
    const SessionCopier& copier() const { return copier_; }  // kCopier: of an agent
    const GateRefusal& refusal() const { return refusal_; }  // kRefused

  private:
    State refuse(GateCause cause, std::string reason);
    State check_header();
    State check_body();

    std::array<std::byte, kSessionHeaderBytes + kHelloBytesMax> bytes_;
    size_t filled_ = 0, wanted_ = kSessionHeaderBytes;
    SessionKind kind_ = SessionKind::kHello;
    SessionHello hello_;
    SessionTasks tasks_;
    SessionCopier copier_;
    GateRefusal refusal_;
};

// Whether its values are ones that a rank can have: those of the settings, and its rank.
std::optional<GateRefusal> check_values(const SessionHello& hello);

}  // namespace longshore
