// A rank's connection to its stand-in on the DPU, and what is said of it once it is lost.
#pragma once

#include <string>

#include "dpu/session/stream.h"
#include "host/context.h"

namespace longshore {

class FarConnection {
  public:
    explicit FarConnection(ls_context& context) : c_(context) {}
    SessionStream& stream() { return stream_; }
    const SessionStream& stream() const { return stream_; }
    void begin(Fd socket) { stream_ = SessionStream(std::move(socket), c_.options.limit_s); }
    void lose(const std::string& why);
    bool is_lost() const { return is_lost_; }
    const std::string& why_lost() const { return why_lost_; }
    // Tells the user why operations fail; once, and only where one does: a job may be over before its DPU is.
    void say_lost();
    // The DPU, by name, and what it does.
    std::string on_dpu(const std::string& what) const;
    // Until something arrives, room is made for what waits to be sent, or the time is over.
    void sleep(uint64_t timeout_ns) const;

  private:
    ls_context& c_;
    SessionStream stream_;
    bool is_lost_ = false, said_lost_ = false;
    std::string why_lost_;
};

}  // namespace longshore
