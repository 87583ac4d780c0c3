#include "file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace bigsort {

namespace {

std::string reason(int error) {
    return error == EILSEQ ? "values are not in ascending order" : std::strerror(error);
}

}  // namespace

FileError::FileError(const std::string& call, const std::string& path, int error)
    : std::runtime_error("cannot " + call + " " + path + ": " + reason(error)),
      call_(call),
      path_(path),
      error_(error) {}

void write_all(int file, const std::string& path, const void* data, std::size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = write(file, next, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw FileError("write", path, errno);
        next += written;
        bytes -= std::size_t(written);
    }
}

void read_all(int file, const std::string& path, void* data, std::size_t bytes) {
    char* next = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t got = read(file, next, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw FileError("read", path, errno);
        if (got == 0) throw FileError("read (the file ends too early)", path, EIO);
        next += got;
        bytes -= std::size_t(got);
    }
}

FileWriter::FileWriter(std::string folder, const Layout& layout, std::uint64_t open_max)
    : folder_(std::move(folder)), layout_(layout), open_max_(std::max<std::uint64_t>(open_max, 1)) {}

FileWriter::~FileWriter() {
    for (const int file : open_) close(file);
}

void FileWriter::begin(const Stretch& stretch) {
    stretch_ = stretch;
    file_ = next_open_ = stretch.begin;
    page_ = 0;
    open_ahead();
}

void FileWriter::open_ahead() {
    while (next_open_ < stretch_.end && open_.size() < open_max_) {
        const std::string next = file_path(folder_, stretch_.cycle, next_open_);
        const int file = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0) throw FileError("open", next, errno);
        open_.push_back(file);
        ++next_open_;
    }
}

void FileWriter::check_order(const Value* values, std::size_t values_count) const {
    Value last = page_ == 0 ? 0 : last_;
    for (std::size_t i = 0; i < values_count; ++i) {
        if (values[i] < last) throw FileError("write", path(), EILSEQ);
        last = values[i];
    }
}

void FileWriter::write(const Value* values, std::size_t values_count) {
    check_order(values, values_count);
    last_ = values[values_count - 1];
    write_all(open_.front(), path(), values, values_count * sizeof(Value));
    if (++page_ < layout_.pages_of(stretch_.cycle, file_)) return;
    const int file = open_.front();
    open_.pop_front();
    if (close(file) != 0) throw FileError("close", path(), errno);
    ++file_;
    page_ = 0;
    open_ahead();
}

}  // namespace bigsort
