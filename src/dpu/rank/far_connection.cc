#include "dpu/rank/far_connection.h"

#include <poll.h>
#include <time.h>

#include <utility>

namespace longshore {

void FarConnection::lose(const std::string& why) {
    is_lost_ = true;
    why_lost_ = why;
    stream_.end();
}

void FarConnection::say_lost() {
    if (!std::exchange(said_lost_, true))
        log_line(c_, 0, ("a collective cannot be finished: " + why_lost_).c_str());
}

std::string FarConnection::on_dpu(const std::string& what) const {
    return "the DPU at " + std::string(c_.options.dpu) + " " + what;
}

void FarConnection::sleep(uint64_t timeout_ns) const {
    constexpr uint64_t kSecondNs = 1'000'000'000;
    if (!stream_.open()) return;
    pollfd ready{stream_.fd(), static_cast<short>(stream_.flushed() ? POLLIN : POLLIN | POLLOUT), 0};
    const timespec timeout{static_cast<time_t>(timeout_ns / kSecondNs),
                           static_cast<long>(timeout_ns % kSecondNs)};
    ppoll(&ready, 1, &timeout, nullptr);
}

}  // namespace longshore
