// A set of CPUs, as the kernel counts them, and what a process is bound to.
#pragma once

#include <sys/types.h>

#include <vector>

namespace longshore {

struct CpuMask {
    static constexpr int kCpusMax = 8192;

    CpuMask() = default;
    explicit CpuMask(const std::vector<int>& cpus) {
        for (const int cpu : cpus) add(cpu);
    }
    bool has(int cpu) const { return cpu >= 0 && cpu < kCpusMax && (bits[cpu / 8] >> (cpu % 8) & 1) != 0; }
    void add(int cpu) {
        if (cpu >= 0 && cpu < kCpusMax)
            bits[cpu / 8] = static_cast<unsigned char>(bits[cpu / 8] | 1u << (cpu % 8));
    }
    int count() const {
        int sum = 0;
        for (const unsigned char byte : bits) sum += __builtin_popcount(byte);
        return sum;
    }
    bool empty() const {
        for (const unsigned char byte : bits)
            if (byte != 0) return false;
        return true;
    }
    // That of a process (0: the calling one); false: it is gone.
    bool get(pid_t pid);
    // Binds the calling process; the kernel keeps what its cpuset allows.
    void set() const;
    // That of all CPUs that the calling thread could be bound to. Empty: it cannot be told.
    static CpuMask allowed();

    alignas(8) unsigned char bits[kCpusMax / 8] = {};
};

// "2,3" or "8-11". Empty: it is no such list.
std::vector<int> parse_cpu_list(const char* text);

}  // namespace longshore
