#include "bench/copy_limit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace longshore::bench {

namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr int kLooksCrowded = 64, kLooksAlone = 4096;  // before others may run; the latter some microseconds

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

[[noreturn]] void fail(const char* what) {
    throw std::runtime_error(fmt::format("copy-limit: {}: {}", what, std::strerror(errno)));
}

// The first rank's file, found by the others under its process id.
int open_together(std::size_t bytes, MPI_Comm comm) {
    struct Place {
        int process, file;
    };
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    Place place{int(getpid()), -1};
    if (rank == 0) {
        place.file = memfd_create("longshore-bench", MFD_CLOEXEC);
        if (place.file < 0 || ftruncate(place.file, off_t(bytes)) != 0) fail("cannot make shared memory");
    }
    PMPI_Bcast(&place, int(sizeof place), MPI_BYTE, 0, comm);
    if (rank == 0) return place.file;
    const int file =
        open(fmt::format("/proc/{}/fd/{}", place.process, place.file).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) fail("cannot open the first rank's memory");
    return file;
}

}  // namespace

SharedMemory::SharedMemory(std::size_t part_bytes, MPI_Comm comm) : part_bytes_(whole_pages(part_bytes)) {
    int ranks = 1;
    PMPI_Comm_size(comm, &ranks);
    parts_at_ = whole_pages(sizeof(Signals) * std::size_t(ranks));
    bytes_ = parts_at_ + part_bytes_ * std::size_t(ranks);
    const int file = open_together(bytes_, comm);
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) fail("cannot map shared memory");
    memory_ = static_cast<std::uint8_t*>(memory);
    PMPI_Barrier(comm);  // the first rank's file is open until all have it
    close(file);
}

SharedMemory::~SharedMemory() {
    munmap(memory_, bytes_);
}

void SharedMemory::touch_all() const {
    for (std::size_t at = 0; at < bytes_; at += kPageBytes)
        static_cast<void>(*static_cast<volatile std::uint8_t*>(memory_ + at));
}

LimitExchange::LimitExchange(const Collective& collective, std::size_t bytes, int rank, int ranks,
                             int buffers, MPI_Comm comm, bool crowded)
    : SharedMemory(std::size_t(buffers) * pair_space(collective, bytes, rank, ranks), comm),
      Exchange(collective, bytes, rank, ranks, buffers, comm, part(rank)),
      looks_before_yield_(crowded ? kLooksCrowded : kLooksAlone),
      taken_(std::size_t(ranks)) {
    PMPI_Barrier(comm);  // each rank has written its own part: the pages lie where it runs
    touch_all();
}

void LimitExchange::renew(int buffer) {
    const std::size_t space = pair_space(collective(), bytes(), rank_, ranks_);
    std::uint8_t* place = part(rank_) + space * std::size_t(buffer);
    if (madvise(place, space, MADV_REMOVE) != 0) fail("cannot renew shared memory");
    pairs_[std::size_t(buffer)] = make_pair(place);
}

template <class Condition>
void LimitExchange::wait_until(const Condition& condition) const {
    for (int looks = 1; !condition(); ++looks)
        if (looks % looks_before_yield_ == 0) sched_yield();
}

void LimitExchange::copy_block(int buffer, int source) {
    const Pair& mine = pairs_[std::size_t(buffer)];
    const Pattern pattern = collective().pattern;
    if (pattern == Pattern::kOneToAll && source == rank_) return;  // a broadcast's one buffer
    // Every part is laid out alike.
    const std::uint8_t* given = pattern == Pattern::kOneToAll ? mine.receive.data() : mine.send.data();
    const std::uint8_t* from = part(source) + (given - part(rank_));
    std::uint8_t* to = mine.receive.data();
    if (pattern == Pattern::kEachToEach) from += bytes() * std::size_t(rank_);
    if (pattern != Pattern::kOneToAll) to += bytes() * std::size_t(source);
    std::memcpy(to, from, bytes());
}

MPI_Request LimitExchange::start(const Calls&, int buffer) {
    const std::uint64_t now = ++exchanges_;
    Signals& mine = signals(rank_);
    if (gives(rank_)) mine.ready.store(now, std::memory_order_release);
    int left = 0;
    for (int source = 0; source < ranks_; ++source) left += gives(source);
    std::fill(taken_.begin(), taken_.end(), 0);
    wait_until([&] {
        for (int step = 0; step < ranks_; ++step) {
            const int source = ring_source(rank_, ranks_, step);
            if (taken_[std::size_t(source)] || !gives(source) ||
                signals(source).ready.load(std::memory_order_acquire) < now)
                continue;
            copy_block(buffer, source);
            taken_[std::size_t(source)] = 1;
            --left;
        }
        return left == 0;
    });
    mine.read.store(now, std::memory_order_release);
    if (!gives(rank_)) return MPI_REQUEST_NULL;
    for (int step = 0; step < ranks_; ++step) {
        const Signals& reader = signals(ring_source(rank_, ranks_, step));
        wait_until([&] { return reader.read.load(std::memory_order_acquire) >= now; });
    }
    return MPI_REQUEST_NULL;
}

}  // namespace longshore::bench
