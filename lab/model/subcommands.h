// Subcommands of 'longshore simulate', each in a file of its own.
#pragma once

#include "tools/tools.h"

namespace longshore::tools {

void add_simulate_staged(CLI::App& simulate, int* exit_code);
void add_simulate_steps(CLI::App& simulate, int* exit_code);

}  // namespace longshore::tools
