#include "fabric/tcp/answers.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace longshore {

bool Answers::are_missing(int fd, uint64_t silence_ns) {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
    const uint64_t heard_ms = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
    // What is sent again meets an answer, too, where the other end has no room; whatever comes ends the count
    // of probes.
    const bool waits =
        (info.tcpi_unacked != 0 && info.tcpi_last_data_sent < heard_ms) || info.tcpi_probes != 0;
    const bool seems_missing = waits && heard_ms * 1'000'000 >= silence_ns;
    return std::exchange(seemed_missing_, seems_missing) && seems_missing;
}

}  // namespace longshore
