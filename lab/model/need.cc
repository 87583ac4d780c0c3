#include "model/need.h"

#include <fmt/core.h>

#include <fstream>
#include <sstream>
#include <string>

namespace longshore::tools {
namespace {

constexpr double kLongSeconds = 20;

// In bytes; 0: the system does not say.
uint64_t memory_available() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        uint64_t kib = 0;
        if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
    }
    return 0;
}

std::string in_words(double seconds) {
    if (seconds < 120) return fmt::format("{:.0f} s", seconds);
    return seconds < 7200 ? fmt::format("{:.0f} minutes", seconds / 60)
                          : fmt::format("{:.0f} hours", seconds / 3600);
}

}  // namespace

bool check_need(const char* command, const Need& need) {
    const uint64_t there = memory_available();
    const double gigabytes = static_cast<double>(need.memory_bytes) / 1e9;
    if (there != 0 && need.memory_bytes > there) {
        fmt::print(
            stderr,
            "{}: this needs about {:.1f} GB of memory, and {:.1f} GB are free; fewer nodes or ranks, or "
            "shorter blocks need less\n",
            command, gigabytes, static_cast<double>(there) / 1e9);
        return false;
    }
    if (need.seconds >= kLongSeconds)
        fmt::print(stderr, "{}: this takes about {} of a core and {:.1f} GB\n", command,
                   in_words(need.seconds), gigabytes);
    return true;
}

}  // namespace longshore::tools
