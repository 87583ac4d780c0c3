// How this rank begins with the host library: what it is told of the settings, until all ranks have attached.
#pragma once

#include <string>

namespace longshore::mpi {

// Collective. All ranks return the same; shim().context is there if it is true.
bool attach();
// A path as it is now: the program may change its directory, and a service process starts in another.
std::string absolute(const std::string& path);
// Ranks on this machine, by what the launcher says: a hint.
int local_ranks();
// The program longshored, as the settings or the place of this library say.
std::string service_path();

}  // namespace longshore::mpi
