// The ring of a rank as a memory file, and how both sides map it: twice, one behind the other, so that what
// goes around its end is in one piece.
#pragma once

#include <cstdint>

#include "fabric/shm/system.h"
#include "io/layout.h"

namespace longshore::io {

class Ring {
  public:
    // False: not such a file, or no address space for it.
    bool map(int file, uint64_t bytes);
    // Of a part of it, with what is there. False: the system knows no such thing, or has none.
    bool take_memory(uint64_t position, uint64_t bytes);
    Ring() = default;
    Ring(Ring&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
    Ring& operator=(Ring&& other) = delete;
    ~Ring();
    const std::byte* at(uint64_t position) const { return base_ + position % bytes_; }

  private:
    std::byte* base_ = nullptr;
    uint64_t bytes_ = 0;
};

// Wakes who sleeps on a word that other processes map.
void wake(Atomic<uint32_t>& word);
// Sleeps while the word is `seen`, at most so long.
void sleep_on(Atomic<uint32_t>& word, uint32_t seen, uint64_t timeout_ns);

}  // namespace longshore::io
