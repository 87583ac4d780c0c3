// From the standing service to a stand-in: a program of its own, so that nothing of what the service knows
// (the tokens of other jobs, what other ranks said) is left in the memory of a process that serves one rank.
#pragma once

#include <string>

#include "dpu/session/session.h"
#include "dpu/session/stream.h"

namespace longshore {

// This process becomes `longshored stand-in`, with the connection, what the rank said first, and the door by
// which connections of the host's agent come. Returns only when it cannot: the exit status.
int exec_stand_in(SessionStream stream, const SessionHello& hello, Fd door, const std::string& service_path);

// `longshored stand-in PATH`. PATH: of longshored, for the supervisor that it may start. Returns the exit
// status.
int run_stand_in_process(const char* service_path);

}  // namespace longshore
