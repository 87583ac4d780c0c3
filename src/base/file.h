// Reading the files that users write, and those of /proc; waiting for who reads a pipe. Used inside foreign
// processes too, as settings.h.
#pragma once

#include <cstddef>
#include <string>

namespace longshore {

// All of a file, or its first bytes_max + 1 bytes: then it is longer, which the caller has to say. False, and
// why, with the path before it: it cannot be read.
bool read_file(const std::string& path, size_t bytes_max, std::string* text, std::string* error);

// All of a file under /proc, at most its first kProcBytesMax bytes. Empty when there is none, when it may not
// be read, and when its process ends before all of it is read: the kernel then answers read() with ESRCH, for
// which std::istreambuf_iterator throws.
constexpr size_t kProcBytesMax = 1 << 20;
std::string read_proc(const std::string& path);

// Waits until all that has been written to a pipe is read or nobody reads it any more, at most limit_s
// seconds; not at all for another file. For the standard error before MPI_Abort: a launcher forwards nothing
// that it has not read by then.
constexpr int kReaderLimitS = 60;  // a reader may wait for a core
void wait_until_read(int file, int limit_s = kReaderLimitS);

}  // namespace longshore
