// Moves bytes between the regions of the benchmark's processes, one-sided: the peer takes no part. One region
// per process; transfers name bytes in it by offset. An implementation for another machine room (verbs) slots
// in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace longshore::dpu_bench {

// What every process must know of another's region. The program exchanges addresses and keys over MPI.
struct RegionHandle {
    std::uint64_t address = 0;
    std::uint64_t key = 0;
};

class Mover {
  public:
    virtual ~Mover() = default;

    virtual const char* name() const = 0;
    virtual bool one_machine_only() const = 0;

    // Makes [base, base + bytes) this process's region; it stays until the next call, which replaces it.
    virtual RegionHandle expose(void* base, std::size_t bytes) = 0;
    // The handles of all processes, by rank, this one's included.
    virtual void connect(std::span<const RegionHandle> handles) = 0;

    // Start a transfer between this process's region and a peer's (which may be this one).
    virtual void read(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) = 0;
    virtual void write(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) = 0;
    // Returns when all that was started is done: what was written is in the peer's memory. Throws
    // std::runtime_error for the first transfer that failed.
    virtual void wait_all() = 0;
};

// Between processes of one machine, by process_vm_readv and process_vm_writev: one copy, done when the call
// returns.
std::unique_ptr<Mover> make_process_vm_mover();

}  // namespace longshore::dpu_bench
