// Moves bytes between the regions of the benchmark's processes, one-sided: the peer takes no part. One region
// per process; transfers name bytes in it by offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
    virtual std::string description() const { return name(); }  // with what it uses
    virtual bool one_machine_only() const = 0;

    // Once, before the first region. What the others must know to reach this process, as long in each of
    // them.
    virtual std::vector<std::uint8_t> open(int rank, int ranks) { return {}; }
    // What open() gave everywhere, by rank, one behind the other. When all have come back, transfers may
    // start.
    virtual void join(std::span<const std::uint8_t> contacts) {}

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

enum class MoverKind {
    kProcessVm,  // between processes of one machine, by process_vm_readv and process_vm_writev: one copy
    kTcp,        // between any machines, by TCP and a thread of each process that serves its region
    kVerbs,      // by an RDMA device: reads and writes over reliable connections between all processes
};
inline constexpr MoverKind kMoverKinds[] = {MoverKind::kProcessVm, MoverKind::kTcp, MoverKind::kVerbs};

const char* to_string(MoverKind kind);

// Why this build has no such mover, and what to do; "": it has.
std::string why_not_built(MoverKind kind);

// `device` is for verbs: NAME or NAME:PORT; "": the first device with an active port; and for tcp: the
// interface that others connect to; "": any. Throws
// std::runtime_error.
std::unique_ptr<Mover> make_mover(MoverKind kind, const std::string& device);

// The kinds one by one.
std::unique_ptr<Mover> make_process_vm_mover();
std::unique_ptr<Mover> make_tcp_mover(const std::string& interface);
std::unique_ptr<Mover> make_verbs_mover(const std::string& device);

}  // namespace longshore::dpu_bench
