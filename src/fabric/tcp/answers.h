// Whether the other end's machine still answers by a TCP stream. The kernel can be told to end one that does
// not (TCP_USER_TIMEOUT), but ends with it those whose other end is there and takes nothing for so long: a
// process that is suspended. So we look ourselves.
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
