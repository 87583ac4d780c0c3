// The state of write-behind in a rank: which descriptors are of files that are written behind, what their
// offsets and sizes are, and the queue to the writer. All calls but the first two are made with a Guard.
// No C++ runtime: this is in every process of a job that preloads the library.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "io/layout.h"
#include "io/preload/pattern.h"

namespace longshore::io {

constexpr int kDescriptorsMax = 65536;  // a descriptor with a higher number is left to the program

// Of each descriptor 0, or the number of its file + 1; with kClosing, the program has closed it.
constexpr uint16_t kClosing = 0x8000;
extern Atomic<uint16_t> owners[kDescriptorsMax];
extern Atomic<uint32_t> is_on;  // between attach and detach

// Whether a call on it concerns this library.
inline bool concerns(int fd) {
    return static_cast<unsigned>(fd) < kDescriptorsMax &&
           __builtin_expect(owners[fd].load(std::memory_order_relaxed) != 0, 0);
}

// The library's lock, with all signals blocked that a handler could write to a file in.
class Guard {
  public:
    Guard();
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

  private:
    sigset_t before_;
};

// An open file description that the program has, by one descriptor or several. All matching files are known
// as long as they are open: those that the program writes itself, so that nobody else's are written behind.
struct File {
    uint32_t slot = 0, descriptors = 0;
    uint64_t number = 0;
    bool is_behind = false;
    bool is_locked = false;        // by flock
    int64_t offset = 0, size = 0;  // as if all had been written; of one that is written behind
};

struct Identity {
    uint64_t device = 0, inode = 0;
};

// Whether this is the process that attached: a child that shares its memory (vfork) is not.
bool is_rank();
// False for all absolute paths that no pattern matches, and for most others. Without a Guard.
bool may_match(int folder, const char* path);
// The path's pattern, or -1. `folder`: as openat has it.
int pattern_of(int folder, const char* path);
// It has been changed.
void see_working_directory();

// The file of a descriptor that is written behind. Null: it is none. *is_closed: the program has closed the
// descriptor, although the system has not yet.
File* file_of(int fd, bool* is_closed);

// --- files. Errors are numbers, 0 for none.

// Waits until all ranks' records of the file at a matching path are written: before it is opened, looked at
// or renamed.
void settle(Identity file);
void settle_path(int folder, const char* path, int flags);
// Whoever has that file open writes it itself from now on: its size is changed by its name.
void share_path(const char* path);
// Who opened a file: a call of this library's, or the C library for a stream that calls the system by itself.
// kStreamAgain: one whose call must not be repeated (freopen).
enum class Opener { kCall, kStream, kStreamAgain };
// A matching file has been opened with those flags: from now on it is written behind, unless something speaks
// against it.
void take(int fd, const char* path, int flags, Opener opener, int pattern);
// A file of that pattern could not be opened, for the reason in errno.
void note_refusal(int pattern, int flags);
// The number of the open file of a descriptor, written behind or not; 0: of none that matches.
uint64_t number_of(int fd);
// Another descriptor of the same.
void add_descriptor(int fd, int as);
// The system has closed the descriptor, or given its number to something else.
void forget_descriptor(int fd);

// Whether a write may go behind. If not, *error is what the program is to be told, or 0: the system is
// called.
bool may_write_behind(File& file, int* error);
int write_behind(File& file, const void* data, size_t bytes, int64_t offset);
int truncate_behind(File& file, int64_t length);
// Waits until all of it is written. An error that had not been told is told now, once, and the file is let
// go.
int drain(File& file);
// The size, as if all had been written.
int64_t size_of(File& file, int fd);
// The system's offset becomes the file's.
void set_system_offset(const File& file, int fd);
// From now on the program writes it itself.
void let_go(File& file, Reason reason);
// All files; `inherited_only`: those that a program that is started would inherit.
void let_go_all(Reason reason, bool inherited_only);
// Waits for all, also those that are closed.
void drain_all();
// The program closes it. The system does when all is written: it would wait for that itself. True: that is
// later, and *error is for the program; false: now.
bool close_behind(File& file, int fd, int* error);
// Closes what the program has closed and is written. `must`: waits for it.
void close_written(bool must);
// Whether this library hears of mmap. An MPI's network library may have put itself in its place.
bool sees_mappings();
// Not the program's.
bool is_own_descriptor(int fd);

// Before the program ends: waits for all, and says what could not be written. Returns of how many files that
// is so, ever.
uint32_t finish();
uint32_t lost_files();
// At the end, of a descriptor's file: likewise, of one that could not be written.
void say_lost(int fd, int error);

}  // namespace longshore::io
