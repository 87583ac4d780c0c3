// Where machine files lie.
#pragma once

#include <string>

namespace longshore::tools {

// The machine file that `name` means: a file, or one of those that come with the product.
std::string machine_path(const std::string& name);

// The names of the latter, for messages.
std::string known_machines();

}  // namespace longshore::tools
