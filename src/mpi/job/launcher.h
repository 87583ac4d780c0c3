// What the launcher of this process says in its environment, whichever MPI's it is.
#pragma once

namespace longshore::mpi {

struct Launcher {
    unsigned processes = 0;          // that it has started; 0: it does not say
    const char* variable = nullptr;  // that says so
    bool is_first = false;           // this process is the first of them
};

Launcher find_launcher();

}  // namespace longshore::mpi
