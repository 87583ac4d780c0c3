// Options are read before MPI_Init, so that --help and a mistake in them need no launcher. Who speaks then is
// told by the launchers, which give a process its rank in the environment.
#pragma once

#include <cstdlib>
#include <cstring>

namespace longshore::bench {

inline bool is_first_process() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
        if (const char* value = std::getenv(name)) return std::strcmp(value, "0") == 0;
    return true;
}

}  // namespace longshore::bench
