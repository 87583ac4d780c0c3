// The machine that is measured, in the words of its kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longshore::device {

struct MachineFacts {
    std::string processor, kernel, architecture, date;
    std::vector<int> cpus;  // that this process may use
    uint32_t sockets = 1;
    uint64_t memory_free_bytes = 0;
};

MachineFacts look_at_machine();

// The calling thread runs there, and nowhere else.
void stay_on(int cpu);

// While it lives the calling thread runs on the first (or the last) of the processors that it may use: the
// near and the far end of a measurement, which may be on one machine. With one processor both have it.
class OnOwnCore {
  public:
    enum class Which : uint8_t { kFirst, kLast };
    explicit OnOwnCore(Which which);
    ~OnOwnCore();
    OnOwnCore(const OnOwnCore&) = delete;
    OnOwnCore& operator=(const OnOwnCore&) = delete;

  private:
    std::vector<int> allowed_;
};

}  // namespace longshore::device
