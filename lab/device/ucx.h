// Between two machines by UCX, the library that service processes use: its small messages, and reads and
// writes of the far end's memory, by a network card where there is one that can. Found when the program runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/conversation.h"
#include "device/memory.h"

namespace longshore::device {

struct UcxLibrary;

class Ucx {
  public:
    Ucx();
    Ucx(const Ucx&) = delete;
    Ucx& operator=(const Ucx&) = delete;

    // "" or why UCX cannot be used here.
    std::string open();
    // Its version, and whether a card reads and writes the other machine's memory.
    std::string name() const;

    // The far end: tells the near one of memory of so many bytes, and answers until that says that it is
    // over. False: it has gone, or was silent.
    bool serve(Connection& connection, uint64_t bytes);
    // The near end, when the far one serves: "ucx message": half of a message's way there and back, us; "ucx
    // read time": one read, us; "ucx read", "ucx write": GB/s with 16 under way; "ucx both": the sum of both
    // at once; "ucx messages": 8 bytes each, 1/s; both ends look all the time.
    // "" or what went wrong.
    std::string measure(Connection& connection, const Effort& effort, const Report& report);

  private:
    std::shared_ptr<UcxLibrary> library_;  // its own alone; nobody knows what it is where there is no UCX
};

}  // namespace longshore::device
