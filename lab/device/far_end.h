// The far end of a measurement between machines: does what the near one asks for.
#pragma once

#include <string>

#include "device/conversation.h"

namespace longshore::device {

// The far end: answers one near end until it has had enough. "" or why it ended early.
std::string serve(Connection& connection);

}  // namespace longshore::device
