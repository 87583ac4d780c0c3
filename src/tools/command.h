// The longshore command, which ends with the exit status that this returns. main.cc alone calls it: unit
// tests are linked to all but that.
#pragma once

namespace longshore::tools {

int run_command(int argc, char** argv);

}  // namespace longshore::tools
