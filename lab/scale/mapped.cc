#include "scale/mapped.h"

#include <sys/mman.h>

#include <vector>

#include "base/check.h"

namespace longshore::scale {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

Mapped::Mapped(size_t bytes) : bytes_((bytes + kPage - 1) & ~(kPage - 1)) {
    void* at =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LONGSHORE_CHECK(at != MAP_FAILED);
    data_ = static_cast<std::byte*>(at);
    madvise(at, bytes_, MADV_NOHUGEPAGE);  // else a byte makes 2 MiB of it resident
}

Mapped::~Mapped() {
    munmap(data_, bytes_);
}

uint64_t Mapped::touched(size_t offset, size_t bytes) const {
    const size_t first = offset / kPage, end = (offset + bytes + kPage - 1) / kPage;
    std::vector<unsigned char> pages(end - first);
    LONGSHORE_CHECK(mincore(data_ + first * kPage, (end - first) * kPage, pages.data()) == 0);
    uint64_t count = 0;
    for (const unsigned char page : pages) count += page & 1;
    return count * kPage;
}

}  // namespace longshore::scale
