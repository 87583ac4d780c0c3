// Which ranks of the job run under the shim, found out without any message that a rank without it could meet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace longshore::mpi {

// The launcher's key space of this job. A value that is put before MPI_Init is seen by all after MPI_Init,
// because every MPI_Init holds the launcher's own barrier, in ranks with and without the shim.
class KeySpace {
  public:
    virtual ~KeySpace() = default;
    // Before PMPI_Init.
    virtual bool put(const std::string& key, const std::string& value) = 0;
    // After it: whether the key, which this rank has put, is there for all to see.
    virtual bool published(const std::string& key) = 0;
    // After it: whether `rank` has put `key`, and what.
    virtual bool get(uint32_t rank, const std::string& key, std::string* value) = 0;
};

// Null if this process was not started by a launcher that we can talk to. Call before PMPI_Init.
std::unique_ptr<KeySpace> open_key_space();

// For core_api.h.
void before_pmix_commit(void* commit);

}  // namespace longshore::mpi
