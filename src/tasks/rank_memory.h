// A rank's buffers as its task process reaches them: those in the rank's shared heap where they are mapped
// here, others in copies that are made by the system's help and written back. One thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "longshore_plugin.h"
#include "tasks/control.h"

namespace longshore::tasks {

// The room that the copy of a buffer takes among others.
constexpr uint64_t room_of_copy(uint64_t bytes) {
    constexpr uint64_t kAlignment = 64;
    return (bytes + kAlignment - 1) & ~(kAlignment - 1);
}

class RankMemory {
  public:
    // `heap`: the rank's heap's file, if it has one.
    RankMemory(uint32_t pid, uint64_t start_time, const SharedHeap& heap, Fd file);

    struct Bytes {
        uint64_t mapped = 0, copied = 0;
    };
    // Where the buffers of a task are in this process. What is read comes with it, into `copies`, which is
    // the task's until it is closed, and another's then: it is made larger where it has to be. False, with
    // the reason: one of them is not there. Kept buffers are left to the caller.
    bool open(std::span<const BufferPlace> buffers, longshore_view* views, Mapping* copies, Bytes* bytes,
              std::string* error);
    // Gives back what the task has written to copies.
    bool close(std::span<const BufferPlace> buffers, const longshore_view* views, const Mapping& copies,
               Bytes* bytes, std::string* error);

  private:
    std::byte* find_mapped(const BufferPlace& buffer);
    void populate(uint64_t offset, uint64_t bytes);
    bool is_there() const;

    const uint32_t pid_;
    const uint64_t start_time_;
    Fd file_;
    uint64_t file_bytes_ = 0;  // that it has at least: it only grows
    Mapping heap_;             // as long as the file may become
    std::vector<bool> populated_;
};

}  // namespace longshore::tasks
