// From the standing service to a task process: a guard, a program of its own and of the job's user, for each
// stream of a carrier. It looks at what the carrier wants loaded (plugin_folders.h), starts the task process,
// and ends with it. What both write to stderr is in the service's log.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dpu/session/session.h"
#include "dpu/session/stream.h"

namespace longshore {

// This process becomes `longshored task-guard`, with the connection, to which nothing was answered yet.
// Returns only when it cannot: the exit status.
int exec_task_guard(SessionStream stream, const SessionTasks& tasks, const std::vector<std::string>& folders);

// `longshored task-guard LIMIT_S FOLDER...`. Returns the exit status.
int run_task_guard(std::span<char* const> arguments);

}  // namespace longshore
