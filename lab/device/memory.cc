#include "device/memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "device/clock.h"

namespace longshore::device {
namespace {

constexpr uint64_t kSampleNs = 2'000'000;  // at least so long: the clock costs nothing then

// Pages of its own, all touched.
class Buffer {
  public:
    explicit Buffer(uint64_t bytes) : bytes_(bytes) {
        void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        data_ = at == MAP_FAILED ? nullptr : static_cast<char*>(at);
        if (data_ != nullptr) memset(data_, 1, bytes);
    }
    ~Buffer() {
        if (data_ != nullptr) munmap(data_, bytes_);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    char* data() const { return data_; }

  private:
    uint64_t bytes_;
    char* data_;
};

std::vector<uint64_t> block_sizes(const Effort& effort) {
    std::vector<uint64_t> sizes;
    for (uint64_t bytes = 64; bytes <= (effort.quick ? 4ull << 20 : 1ull << 30); bytes *= 4)
        sizes.push_back(bytes);
    return sizes;
}

// GB/s of as many copies as fill a sample. Negative: one failed.
double copy_rate(uint64_t bytes, const std::function<bool()>& copy) {
    uint64_t copies = 0;
    const uint64_t begin = now_ns();
    uint64_t now = begin;
    // Small ones many at once, so that it is not the clock that is measured.
    const uint64_t at_once = std::max<uint64_t>(1, 65536 / bytes);
    do {
        for (uint64_t i = 0; i < at_once; ++i) {
            if (!copy()) return -1;
        }
        copies += at_once;
        now = now_ns();
    } while (now - begin < kSampleNs);
    return static_cast<double>(copies * bytes) / static_cast<double>(now - begin);
}

void measure_copies(const char* test, uint64_t bytes, const Effort& effort, const std::function<bool()>& copy,
                    const Report& report, const Tell& left_out) {
    Row row{test, "GB/s", bytes, 1, {}};
    for (int i = -1; i < effort.memory_repeats; ++i) {  // the first is not counted
        const double rate = copy_rate(bytes, copy);
        if (rate < 0) return left_out(std::string(test) + ": the system refuses it: " + strerror(errno));
        if (i >= 0) row.samples.push_back(rate);
    }
    report(std::move(row));
}

// Whether so much may be taken; else says what is left out.
bool fits(const MachineFacts& machine, const std::string& what, uint64_t bytes, const Tell& left_out) {
    if (bytes <= machine.memory_free_bytes / 2) return true;
    left_out(what + ": it needs " + show_size(bytes) + " of memory, more than half of what is free");
    return false;
}

}  // namespace

void measure_memcpy(const MachineFacts& machine, const Effort& effort, const Report& report,
                    const Tell& left_out) {
    for (const uint64_t bytes : block_sizes(effort)) {
        if (!fits(machine, "memcpy of " + show_size(bytes), 2 * bytes, left_out)) return;
        const Buffer from(bytes), to(bytes);
        if (from.data() == nullptr || to.data() == nullptr)
            return left_out("memcpy of " + show_size(bytes) + ": no memory");
        measure_copies(
            "memcpy", bytes, effort,
            [&] {
                memcpy(to.data(), from.data(), bytes);
                asm volatile("" : : "r"(to.data()) : "memory");  // nobody else looks at what was copied
                return true;
            },
            report, left_out);
    }
}

void measure_process_copy(const MachineFacts& machine, const Effort& effort, const Report& report,
                          const Tell& left_out) {
    const uint64_t most = effort.quick ? 4ull << 20 : 64ull << 20;
    if (!fits(machine, "process copy", 2 * most, left_out)) return;
    const Buffer memory(most);
    const Buffer to(most);
    if (memory.data() == nullptr || to.data() == nullptr) return left_out("process copy: no memory");
    int pipes[2];
    if (pipe(pipes) != 0) return left_out(std::string("process copy: ") + strerror(errno));
    const pid_t other =
        fork();  // it has the same memory at the same address, pages of its own once it has written them
    if (other == 0) {
        close(pipes[1]);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        memset(memory.data(), 2, most);
        char byte = 0;
        (void)!read(pipes[0], &byte, 1);  // until this process closes its end
        _exit(0);
    }
    close(pipes[0]);
    if (other < 0) {
        close(pipes[1]);
        return left_out(std::string("process copy: ") + strerror(errno));
    }
    // Of its own pages there are none until it has written them.
    const uint64_t limit = now_ns() + 10'000'000'000;
    char last = 0;
    do {
        iovec here{&last, 1}, there{memory.data() + most - 1, 1};
        if (process_vm_readv(other, &here, 1, &there, 1, 0) < 0 && errno == EPERM) break;  // said below
    } while (last != 2 && now_ns() < limit);
    for (uint64_t bytes = 4096; bytes <= most; bytes *= 4) {
        bool done = false;
        measure_copies(
            "process copy", bytes, effort,
            [&] {
                iovec here{to.data(), bytes}, there{memory.data(), bytes};
                return process_vm_readv(other, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
            },
            [&](Row row) {
                done = true;
                report(std::move(row));
            },
            left_out);
        if (!done) break;
    }
    close(pipes[1]);
    waitpid(other, nullptr, 0);
}

namespace {

struct Kernel {
    const char* name;
    int words;  // read and written by each step
};
constexpr Kernel kKernels[] = {
    {"stream copy", 2}, {"stream scale", 2}, {"stream add", 3}, {"stream triad", 3}};
constexpr double kScalar = 3;

struct Arrays {
    double *a, *b, *c;
};

void run_kernel(int which, const Arrays& v, uint64_t begin, uint64_t end) {
    double* const a = v.a;
    double* const b = v.b;
    double* const c = v.c;
    switch (which) {
        case 0:
            for (uint64_t i = begin; i < end; ++i) c[i] = a[i];
            break;
        case 1:
            for (uint64_t i = begin; i < end; ++i) b[i] = kScalar * c[i];
            break;
        case 2:
            for (uint64_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
            break;
        default:
            for (uint64_t i = begin; i < end; ++i) a[i] = b[i] + kScalar * c[i];
    }
}

// Whether the arrays hold what so many rounds must give.
bool is_right(const Arrays& v, uint64_t count, int rounds) {
    double a = 1, b = 2, c = 0;
    for (int i = 0; i < rounds; ++i) {
        c = a;
        b = kScalar * c;
        c = a + b;
        a = b + kScalar * c;
    }
    for (uint64_t i = 0; i < count; ++i) {
        if (std::abs(v.a[i] / a - 1) > 1e-8 || std::abs(v.b[i] / b - 1) > 1e-8 ||
            std::abs(v.c[i] / c - 1) > 1e-8)
            return false;
    }
    return true;
}

// One number of threads and doubles.
bool stream(const MachineFacts& machine, const Effort& effort, uint64_t count, uint32_t threads,
            const Report& report, const Tell& left_out) {
    const uint64_t bytes = count * sizeof(double);
    void* const memory = mmap(nullptr, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        left_out("stream: no memory");
        return true;
    }
    auto* const first = static_cast<double*>(memory);
    const Arrays arrays{first, first + count, first + 2 * count};
    std::vector<Row> rows;
    for (const Kernel& kernel : kKernels) rows.push_back({kernel.name, "GB/s", bytes, threads, {}});
    const int rounds = effort.memory_repeats + 1;
    std::barrier together(static_cast<std::ptrdiff_t>(threads));
    std::vector<std::thread> others;
    const auto work = [&](uint32_t self) {
        stay_on(machine.cpus[self % machine.cpus.size()]);
        const uint64_t begin = count * self / threads, end = count * (self + 1) / threads;
        for (uint64_t i = begin; i < end; ++i) arrays.a[i] = 1, arrays.b[i] = 2, arrays.c[i] = 0;
        for (int round = 0; round < rounds; ++round) {
            for (int which = 0; which < 4; ++which) {
                together.arrive_and_wait();
                const uint64_t start = now_ns();
                run_kernel(which, arrays, begin, end);
                together.arrive_and_wait();
                if (self == 0 && round > 0)
                    rows[static_cast<size_t>(which)].samples.push_back(static_cast<double>(bytes) *
                                                                       kKernels[which].words /
                                                                       static_cast<double>(now_ns() - start));
            }
        }
    };
    for (uint32_t self = 0; self < threads; ++self) others.emplace_back(work, self);
    for (std::thread& other : others) other.join();
    const bool right = is_right(arrays, count, rounds);
    munmap(memory, 3 * bytes);
    for (Row& row : rows) report(std::move(row));
    return right;
}

}  // namespace

bool measure_stream(const MachineFacts& machine, const Effort& effort, const Report& report,
                    const Tell& left_out) {
    const auto cores = static_cast<uint32_t>(machine.cpus.size());
    std::vector<uint32_t> threads;
    for (uint32_t count = 1; count < cores; count *= 2) threads.push_back(count);
    threads.push_back(cores);
    for (const uint64_t count : {10'000'000ull, 100'000'000ull}) {
        if (effort.quick && count > 10'000'000) break;
        if (!fits(machine, "stream of " + std::to_string(count / 1'000'000) + " million doubles",
                  3 * 8 * count, left_out))
            break;
        for (const uint32_t many : threads) {
            if (!stream(machine, effort, count, many, report, left_out)) return false;
        }
    }
    return true;
}

}  // namespace longshore::device
