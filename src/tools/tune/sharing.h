#pragma once

namespace longshore::tools {

// Measures and prints when sharing memory pays; returns the exit status.
int tune_sharing();

}  // namespace longshore::tools
