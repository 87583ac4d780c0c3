#include "mpi/data/elements.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "mpi/data/device_memory.h"

namespace longshore::mpi {
namespace {

// Host memory for elements as they lie in device memory, with their holes: so much at once, or twice what one
// element spans if that is more. (Elements may interleave, as the columns of a matrix do. Then all of them
// span little more than one, and are to be copied together.)
constexpr uint64_t kSpanBytesMax = uint64_t{64} << 20;

uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// What `count` elements span: `begin` as distance from the buffer's address.
struct Spanned {
    int64_t begin;
    uint64_t bytes;
};
Spanned span_of(const Layout& layout, uint64_t count) {
    const int64_t last = static_cast<int64_t>(count - 1) * layout.extent;
    return {layout.true_lb + std::min<int64_t>(last, 0), layout.true_extent + magnitude(last)};
}

std::byte* at(const void* buffer, int64_t distance) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(buffer) +
                                        static_cast<uintptr_t>(distance));
}

uint64_t elements_at_once(const Layout& layout) {
    const uint64_t room = std::max(kSpanBytesMax, 2 * layout.true_extent) - layout.true_extent;
    return 1 + (layout.extent == 0 ? 0 : room / magnitude(layout.extent));
}

class HostMemory {
  public:
    explicit HostMemory(uint64_t bytes) : bytes_(static_cast<std::byte*>(malloc(bytes))) {}
    ~HostMemory() { free(bytes_); }
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    std::byte* get() const { return bytes_; }

  private:
    std::byte* bytes_;
};

// Calls do(elements, their count, their packed bytes) for as many elements as are staged at once, in order,
// until one fails.
template <class Do>
int in_parts(const Piece& piece, Do each) {
    const uint64_t step = std::min(piece.count, elements_at_once(piece.layout));
    for (uint64_t i = 0; i < piece.count; i += step) {
        const int error =
            each(element_at(piece.user, piece.layout, static_cast<int64_t>(i)),
                 std::min(step, piece.count - i), piece.packed + i * piece.layout.element_bytes);
        if (error != MPI_SUCCESS) return error;
    }
    return MPI_SUCCESS;
}

int copy_in_one(void* to, const void* from, uint64_t bytes, const void* device) {
    DeviceCopies copies(device);
    copies.add(to, from, bytes);
    return copies.finish() ? MPI_SUCCESS : MPI_ERR_OTHER;
}

// All that the elements span comes to the host, where MPI packs it.
int pack_spans(const Piece& piece) {
    const Layout& layout = piece.layout;
    const HostMemory memory(span_of(layout, std::min(piece.count, elements_at_once(layout))).bytes);
    if (!memory.get()) return MPI_ERR_NO_MEM;
    return in_parts(piece, [&](void* elements, uint64_t count, std::byte* packed) {
        const Spanned span = span_of(layout, count);
        const std::byte* first = at(elements, span.begin);
        if (copy_in_one(memory.get(), first, span.bytes, first) != MPI_SUCCESS) return MPI_ERR_OTHER;
        return pack(at(memory.get(), -span.begin), count, layout, packed) ? MPI_SUCCESS : MPI_ERR_OTHER;
    });
}

// The bytes from `from` on that are equal in both, or differ in both: where that ends.
uint64_t end_of_run(const std::byte* a, const std::byte* b, uint64_t from, uint64_t end, bool equal) {
    const uint64_t wanted = equal ? 0 : ~uint64_t{0};
    uint64_t i = from;
    for (; i + sizeof wanted <= end; i += sizeof wanted) {
        uint64_t x = 0, y = 0;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        if ((x ^ y) != wanted) break;
    }
    while (i < end && (a[i] == b[i]) == equal) ++i;
    return i;
}

// The holes between the elements are not to be written: they are the program's, which may change them
// meanwhile. MPI unpacks the elements onto zeros and onto ones, and what is equal then was written by it.
int unpack_spans(const Piece& piece) {
    const Layout& layout = piece.layout;
    const uint64_t bytes_max = span_of(layout, std::min(piece.count, elements_at_once(layout))).bytes;
    const HostMemory zeros(bytes_max), ones(bytes_max);
    if (!zeros.get() || !ones.get()) return MPI_ERR_NO_MEM;
    return in_parts(piece, [&](void* elements, uint64_t count, const std::byte* packed) {
        const Spanned span = span_of(layout, count);
        memset(zeros.get(), 0, span.bytes);
        memset(ones.get(), 0xFF, span.bytes);
        if (!unpack(packed, count, layout, at(zeros.get(), -span.begin)) ||
            !unpack(packed, count, layout, at(ones.get(), -span.begin)))
            return MPI_ERR_OTHER;
        std::byte* first = at(elements, span.begin);
        DeviceCopies copies(first);
        for (uint64_t i = 0; i < span.bytes;) {
            const uint64_t end = end_of_run(zeros.get(), ones.get(), i, span.bytes, true);
            if (end > i) copies.add(first + i, zeros.get() + i, end - i);
            i = end_of_run(zeros.get(), ones.get(), end, span.bytes, false);
        }
        return copies.finish() ? MPI_SUCCESS : MPI_ERR_OTHER;
    });
}

Place place_of(const void* user, uint64_t count, const Layout& layout) {
    if (count == 0 || layout.element_bytes == 0 || !device_runtime_loaded()) return Place::kHost;
    const Spanned span = span_of(layout, count);
    const std::byte* first = at(user, span.begin);
    const bool begins = is_device_memory(first);
    // Without holes they are part of one allocation.
    const bool ends = layout.contiguous ? begins : is_device_memory(first + span.bytes - 1);
    if (begins != ends) return Place::kBoth;
    return begins ? Place::kDevice : Place::kHost;
}

}  // namespace

Piece piece_of(const void* user, uint64_t count, const Layout& layout) {
    return {const_cast<void*>(user), nullptr, count, layout, place_of(user, count, layout)};
}

int pack(const Piece& piece) {
    if (piece.place == Place::kBoth) return MPI_ERR_OTHER;
    if (piece.place == Place::kHost)
        return pack(piece.user, piece.count, piece.layout, piece.packed) ? MPI_SUCCESS : MPI_ERR_OTHER;
    if (piece.layout.contiguous) return copy_in_one(piece.packed, piece.user, piece.bytes(), piece.user);
    return pack_spans(piece);
}

int unpack(const Piece& piece) {
    if (piece.place == Place::kBoth) return MPI_ERR_OTHER;
    if (piece.place == Place::kHost)
        return unpack(piece.packed, piece.count, piece.layout, piece.user) ? MPI_SUCCESS : MPI_ERR_OTHER;
    if (piece.layout.contiguous) return copy_in_one(piece.user, piece.packed, piece.bytes(), piece.user);
    return unpack_spans(piece);
}

}  // namespace longshore::mpi
