// Where the standing service listens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/shm/system.h"

namespace longshore {

// At all addresses of the name `address`, or of this machine ("*"), on one port; 0: any, told in *port. None:
// *error says why.
std::vector<Fd> listen_on(const std::string& address, uint16_t* port, std::string* error);
// "127.0.0.1:7521", "[::1]:7521"
std::string show_listener(const Fd& listener);

}  // namespace longshore
