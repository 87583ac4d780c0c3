// Subcommands that are programs of their own, as git has them: libexec/longshore/NAME beside this command.
// An installation may be without them.
#pragma once

#include <string>

namespace longshore::tools {

// What 'longshore --help' says of it; `name` is one of theirs.
const char* about(const char* name);

// The file of the program.
std::string other_program(const std::string& name);

}  // namespace longshore::tools
