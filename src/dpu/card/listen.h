// `longshored listen`.
#pragma once

namespace longshore {

// `arguments`: those after the word. Returns the exit status.
int run_listen(int count, char** arguments);

}  // namespace longshore
