// Writes the temporary files of a cycle, page after page: what an offload moves away from the rank. One
// thread; no MPI.
#pragma once

#include <deque>
#include <stdexcept>
#include <string>

#include "layout.h"
#include "values.h"

namespace bigsort {

// A call on a file has failed. `what()` names the call, the file and the reason.
class FileError : public std::runtime_error {
  public:
    FileError(const std::string& call, const std::string& path, int error);
    const std::string& call() const { return call_; }
    const std::string& path() const { return path_; }
    int error() const { return error_; }

  private:
    std::string call_, path_;
    int error_;
};

// Writes or reads all bytes, and throws FileError. A read that meets the end of the file too early is an
// error (EIO).
void write_all(int file, const std::string& path, const void* data, std::size_t bytes);
void read_all(int file, const std::string& path, void* data, std::size_t bytes);

class FileWriter {
  public:
    // At most `open_max` files are open at once. `folder` is the path as this process sees it.
    FileWriter(std::string folder, const Layout& layout, std::uint64_t open_max);
    ~FileWriter();
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    // From now on the pages of these files come, in their order. Opens the first of them, up to the limit.
    void begin(const Stretch& stretch);
    // The next page. Checks its order, writes it, and with its last page closes a file and opens the next
    // one. Throws FileError; error() is EILSEQ where values are not in ascending order.
    void write(const Value* values, std::size_t values_count);

  private:
    void open_ahead();
    void check_order(const Value* values, std::size_t values_count) const;
    std::string path() const { return file_path(folder_, stretch_.cycle, file_); }

    std::string folder_;
    Layout layout_;
    std::uint64_t open_max_;
    Stretch stretch_;
    std::uint64_t file_ = 0;       // that is being written
    std::uint64_t page_ = 0;       // its next page
    std::uint64_t next_open_ = 0;  // the first that has not been opened
    std::deque<int> open_;         // descriptors of the files [file_, next_open_)
    Value last_ = 0;               // of the page before, in the same file
};

}  // namespace bigsort
