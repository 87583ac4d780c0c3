// Anonymous memory, page by page as it is touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longshore::scale {

class Mapped {
  public:
    explicit Mapped(size_t bytes);
    ~Mapped();
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    std::byte* data() const { return data_; }
    size_t size() const { return bytes_; }
    // Bytes of the pages that were touched, of all or of a part.
    uint64_t touched() const { return touched(0, bytes_); }
    uint64_t touched(size_t offset, size_t bytes) const;

  private:
    std::byte* data_;
    size_t bytes_;
};

}  // namespace longshore::scale
