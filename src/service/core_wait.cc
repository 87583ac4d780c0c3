#include "service/core_wait.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

namespace longshore {

// "ran waited turns": ns, ns, and how often it was given a core.
CoreWait::CoreWait() : file_(open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC)) {
    read(&waited_ns_, &turns_);
}

bool CoreWait::read(uint64_t* waited_ns, uint64_t* turns) const {
    char text[96];
    const ssize_t bytes = file_ ? pread(file_.get(), text, sizeof text - 1, 0) : -1;
    if (bytes <= 0) return false;
    text[bytes] = 0;
    unsigned long long ran = 0, waited = 0, given = 0;
    if (sscanf(text, "%llu %llu %llu", &ran, &waited, &given) != 3) return false;
    *waited_ns = waited;
    *turns = given;
    return true;
}

uint64_t CoreWait::take_ns() {
    uint64_t waited_ns = 0, turns = 0;
    if (!read(&waited_ns, &turns) || turns <= turns_ || waited_ns < waited_ns_) return 0;
    const uint64_t mean_ns = (waited_ns - waited_ns_) / (turns - turns_);
    waited_ns_ = waited_ns;
    turns_ = turns;
    return mean_ns;
}

}  // namespace longshore
