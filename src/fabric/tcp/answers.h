// Whether the machine at the other end of a TCP stream still acknowledges. The kernel has a timeout for that
// (TCP_USER_TIMEOUT), but it also closes streams whose receiver acknowledges and has no room, because its
// process is suspended. So the service process looks at the kernel's figures itself.
#pragma once

#include <cstdint>

namespace longshore {

class Answers {  // one for each stream
  public:
    // Nothing has been heard for so long although something was said or asked. It takes two looks in a row to
    // tell: between a word and its answer the first would say so, too.
    bool are_missing(int fd, uint64_t silence_ns);

  private:
    bool seemed_missing_ = false;
};

}  // namespace longshore
