// Between two machines by TCP: latency, bandwidth one way and the other, both at once, and small messages.
#pragma once

#include <string>

#include "device/memory.h"

namespace longshore::device {

struct NetworkAddress {
    std::string host, port;  // "": every address of this machine; any port
};
// "HOST:PORT", "[ADDRESS]:PORT". False: it is neither.
bool read_address(const std::string& text, NetworkAddress* address);

struct Wanted {
    bool tcp = false, ucx = false;
};

// The near end. By TCP "network latency": half of a message's way there and back, us, by size, where both
// ends sleep until it comes; "network polling": the same where both look all the time, each on a core of its
// own; "network to", "network from", "network both": GB/s (both: the sum), by size; "network messages": 8
// bytes each, sent one by one, 1/s. By UCX what ucx.h says, and a remark of what it goes by. "" or what went
// wrong.
std::string measure_network(const NetworkAddress& far, const Wanted& wanted, const Effort& effort,
                            const Report& report, const Tell& remark, const Tell& left_out);

// The far end, for one near end: says where it listens, then serves it. "" or what went wrong.
std::string listen_for_one(const NetworkAddress& here);

}  // namespace longshore::device
