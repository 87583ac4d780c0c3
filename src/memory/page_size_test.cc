// The heap where the kernel's pages are larger than its own: there is none, and malloc is the program's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "memory/adopt.h"
#include "memory/heap.h"

// In the place of libc's.
extern "C" long sysconf(int name) noexcept {
    if (name == _SC_PAGESIZE) return 65536;
    static const auto libc = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
    return libc(name);
}

namespace {

alignas(65536) char data[4 * 65536];

TEST(PageSize, WithLargerPagesThereIsNoHeap) {
    EXPECT_EQ(longshore_heap_open(size_t{64} << 20), nullptr);
    EXPECT_EQ(longshore_heap_get(), nullptr);
    EXPECT_EQ(longshore_heap_allocate(1 << 20, 1, 0), nullptr);
    uint64_t begin = 0, end = 0, offset = 0;
    EXPECT_EQ(longshore_adopt(data, sizeof data, &begin, &end, &offset), 0);
}

}  // namespace
