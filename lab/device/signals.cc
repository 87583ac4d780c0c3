#include "device/signals.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "device/clock.h"

namespace longshore::device {
namespace {

// Mapped by both processes; each word in a cache line of its own.
struct Shared {
    alignas(64) std::atomic<uint32_t> there;
    alignas(64) std::atomic<uint32_t> back;
    alignas(64) std::atomic<uint64_t> woken_ns;
};

constexpr uint64_t kGiveUpNs = 10'000'000'000;
constexpr useconds_t kUntilAsleepUs = 200;

bool wait_for(const std::atomic<uint32_t>& word, uint32_t value) {
    const uint64_t end = now_ns() + kGiveUpNs;
    for (uint32_t looks = 1; word.load(std::memory_order_acquire) != value; ++looks) {
        if (looks % 1024 == 0 && now_ns() > end) return false;
    }
    return true;
}

// The other process: answers so many words, then sleeps for so many.
[[noreturn]] void answer(Shared* shared, uint32_t words, uint32_t sleeps) {
    for (uint32_t i = 1; i <= words; ++i) {
        if (!wait_for(shared->there, i)) _exit(1);
        shared->back.store(i, std::memory_order_release);
    }
    for (uint32_t i = words + 1; i <= words + sleeps; ++i) {
        const timespec limit{10, 0};
        while (shared->there.load(std::memory_order_acquire) != i) {
            if (syscall(SYS_futex, &shared->there, FUTEX_WAIT, i - 1, &limit, nullptr, 0) != 0 &&
                errno == ETIMEDOUT)
                _exit(1);
        }
        shared->woken_ns.store(now_ns(), std::memory_order_relaxed);
        shared->back.store(i, std::memory_order_release);
    }
    _exit(0);
}

}  // namespace

void measure_signals(const MachineFacts& machine, const Effort& effort, const Report& report,
                     const Tell& left_out) {
    if (machine.cpus.size() < 2)
        return left_out("words and wake-ups between cores: this process may use one core only");
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return left_out("words and wake-ups between cores: no memory");
    auto* const shared = new (memory) Shared{};
    const auto repeats = static_cast<uint32_t>(effort.memory_repeats);
    const uint32_t words_each = effort.quick ? 1000 : 100'000, sleeps_each = effort.quick ? 10 : 100;
    const uint32_t words = words_each * repeats, sleeps = sleeps_each * repeats;
    const pid_t other = fork();
    if (other == 0) {
        stay_on(machine.cpus[1]);
        answer(shared, words, sleeps);
    }
    bool alive = other > 0;
    stay_on(machine.cpus[0]);
    Row word{"word between cores", "ns", 0, 1, {}}, wake{"wake-up", "us", 0, 1, {}},
        call{"wake-up call", "us", 0, 1, {}};
    uint32_t count = 0;
    for (uint32_t r = 0; alive && r < repeats; ++r) {
        const uint64_t begin = now_ns();
        for (uint32_t i = 0; alive && i < words_each; ++i) {
            shared->there.store(++count, std::memory_order_release);
            alive = wait_for(shared->back, count);
        }
        word.samples.push_back(static_cast<double>(now_ns() - begin) / words_each / 2);
    }
    for (uint32_t r = 0; alive && r < repeats; ++r) {
        double way_us = 0, call_us = 0;
        for (uint32_t i = 0; alive && i < sleeps_each; ++i) {
            usleep(kUntilAsleepUs);  // it is asleep by then, or is woken sooner than others: that is in the
                                     // spread
            shared->there.store(++count, std::memory_order_release);
            const uint64_t begin = now_ns();
            syscall(SYS_futex, &shared->there, FUTEX_WAKE, 1, nullptr, nullptr, 0);
            call_us += static_cast<double>(now_ns() - begin) / 1000;
            alive = wait_for(shared->back, count);
            way_us += (static_cast<double>(shared->woken_ns.load()) - static_cast<double>(begin)) / 1000;
        }
        wake.samples.push_back(way_us / sleeps_each);
        call.samples.push_back(call_us / sleeps_each);
    }
    if (other > 0) waitpid(other, nullptr, 0);
    munmap(memory, sizeof(Shared));
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const int cpu : machine.cpus) CPU_SET(cpu, &all);
    sched_setaffinity(0, sizeof all, &all);
    if (!alive) return left_out("words and wake-ups between cores: the other process did not answer");
    report(std::move(word));
    report(std::move(wake));
    report(std::move(call));
}

}  // namespace longshore::device
