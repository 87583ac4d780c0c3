// Owners of what the system hands out: descriptors and mappings. Movable, not copyable, closed once.
#pragma once

#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace longshore {

class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Fd() { reset(); }
    void reset(int fd = -1) {
        if (fd_ >= 0) close(fd_);
        fd_ = fd;
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }  // the caller closes it
    explicit operator bool() const { return fd_ >= 0; }

  private:
    int fd_ = -1;
};

// A shared mapping of a whole descriptor, or private memory.
class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
    Mapping& operator=(Mapping&& other) noexcept {
        if (this != &other) {
            reset();
            base_ = std::exchange(other.base_, nullptr);
            bytes_ = other.bytes_;
        }
        return *this;
    }
    ~Mapping() { reset(); }
    static Mapping shared(int fd, size_t bytes) { return Mapping(bytes, MAP_SHARED | MAP_NORESERVE, fd); }
    // Part of a file that a program uses with others without knowing: not for its children, nor for a core.
    // Where this program wants all of its memory locked (mlockall), that is not, nor are its pages made for
    // it.
    static Mapping window(int fd, uint64_t offset, size_t bytes) {
        Mapping mapping(bytes, MAP_SHARED | MAP_NORESERVE, fd, offset, PROT_NONE);
        if (mapping &&
            (munlock(mapping.base_, bytes) != 0 || madvise(mapping.base_, bytes, MADV_DONTFORK) != 0 ||
             madvise(mapping.base_, bytes, MADV_DONTDUMP) != 0 ||
             mprotect(mapping.base_, bytes, PROT_READ | PROT_WRITE) != 0))
            mapping.reset();
        return mapping;
    }
    // Shows a descriptor's bytes as they are now, and keeps what is written here to itself.
    static Mapping copy_on_write(int fd, size_t bytes) {
        return Mapping(bytes, MAP_PRIVATE | MAP_NORESERVE, fd);
    }
    // Zeroed memory of this process alone.
    static Mapping anonymous(size_t bytes) {
        return Mapping(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    }
    // Likewise, but not more than the kernel thinks there is; resident: and there from the start.
    static Mapping accounted(size_t bytes, bool resident) {
        Mapping mapping(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14: before, at the first touch
        if (mapping && resident && madvise(mapping.base_, bytes, kPopulateWrite) != 0 && errno != EINVAL)
            mapping.reset();
        return mapping;
    }
    void reset() {
        if (base_ != nullptr) munmap(base_, bytes_);
        base_ = nullptr;
    }
    std::byte* data() const { return static_cast<std::byte*>(base_); }
    size_t size() const { return bytes_; }
    explicit operator bool() const { return base_ != nullptr; }

  private:
    Mapping(size_t bytes, int flags, int fd, uint64_t offset = 0, int protection = PROT_READ | PROT_WRITE)
        : base_(mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(offset))), bytes_(bytes) {
        if (base_ == MAP_FAILED) base_ = nullptr;
    }
    void* base_ = nullptr;
    size_t bytes_ = 0;
};

// A memfd of the given size that nobody can shrink: touching its mapping never raises SIGBUS for lack of
// length. Empty on failure (errno says why).
Fd make_memory_file(const char* name, uint64_t bytes);
// Whether a descriptor from another process is such a memfd of exactly (0: any size, told in *bytes) that
// size.
bool is_memory_file(int fd, uint64_t expected_bytes, uint64_t* bytes);
// No rank's shared memory is larger (memory/heap.c).
constexpr uint64_t kSharedFileBytesMax = uint64_t{1} << 43;

// The file of this program, to start it again in another role. Under an emulator of user programs it is no
// program of this machine: LONGSHORE_INTERNAL_PROGRAM then names what runs it here.
std::string own_program();

inline uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// The clock for timeouts of waits for another process. Between two reads it advances by at most kAwakeNs: a
// process that was suspended with its job, or had no core, cannot know what the other process would have done
// meanwhile, and that one may have been suspended, too. A waiting process reads it at least once in kAwakeNs.
constexpr uint64_t kAwakeNs = 1'000'000'000;
uint64_t awake_ns();
// For how many milliseconds a wait that ends at `end_ns` of that clock may sleep before the next read. 0: it
// has ended.
int awake_wait_ms(uint64_t end_ns);

}  // namespace longshore
