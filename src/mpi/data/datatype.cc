#include "mpi/data/datatype.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <vector>

#include "mpi/shim.h"

namespace longshore::mpi {
namespace {

constexpr int kDepthMax = 8;         // nested types that are looked into; deeper ones are packed
constexpr int kMembersMax = 1 << 8;  // likewise of one type
constexpr uint64_t kPackBytesMax = uint64_t{1} << 30;  // of one PMPI_Pack: its sizes are int

bool read_layout(MPI_Datatype type, Layout* layout) {
    MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
    if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS ||
        PMPI_Type_get_extent_x(type, &lb, &extent) != MPI_SUCCESS ||
        PMPI_Type_get_true_extent_x(type, &true_lb, &true_extent) != MPI_SUCCESS)
        return false;
    if (size < 0) return false;
    layout->type = type;
    layout->element_bytes = static_cast<size_t>(size);
    layout->extent = extent;
    layout->true_lb = true_lb;
    layout->true_extent = true_extent > 0 ? static_cast<uint64_t>(true_extent) : 0;
    // Necessary, not sufficient: an indexed type may have its blocks in another order.
    layout->contiguous = size > 0 && size == extent && size == true_extent && lb == 0 && true_lb == 0;
    return true;
}

bool in_order(MPI_Datatype type, int depth);

// Do blocks follow one another without a gap, the first at 0? Units of the places are those of the lengths.
template <class Place>
bool consecutive(const Place* places, const int* lengths, bool one_length, int count, int64_t length_unit) {
    int64_t next = 0;
    for (int i = 0; i < count; ++i) {
        const int64_t length = lengths[one_length ? 0 : i];
        if (length != 0 && static_cast<int64_t>(places[i]) != next) return false;
        next += length * length_unit;
    }
    return true;
}

// The arguments of the combiner as MPI_Type_get_contents gives them (MPI 4.0, 5.1.13).
bool blocks_in_order(int combiner, const std::vector<int>& integer, const std::vector<MPI_Aint>& address,
                     MPI_Datatype inner) {
    Layout member;
    if (!read_layout(inner, &member)) return false;
    const auto bytes = static_cast<int64_t>(member.element_bytes);
    const int count = integer[0];
    switch (combiner) {
        case MPI_COMBINER_HVECTOR:
            return count <= 1 || address[0] == integer[1] * bytes;
        case MPI_COMBINER_INDEXED:
            return consecutive(&integer[1 + static_cast<size_t>(count)], &integer[1], false, count, 1);
        case MPI_COMBINER_INDEXED_BLOCK:
            return consecutive(&integer[2], &integer[1], true, count, 1);
        case MPI_COMBINER_HINDEXED:
            return consecutive(address.data(), &integer[1], false, count, bytes);
        case MPI_COMBINER_HINDEXED_BLOCK:
            return consecutive(address.data(), &integer[1], true, count, bytes);
        default:
            return false;
    }
}

// A derived type whose outer measures say "no holes": are its members in the order of their addresses?
bool derived_in_order(MPI_Datatype type, int combiner, int integers, int addresses, int types, int depth) {
    std::vector<int> integer(static_cast<size_t>(integers));
    std::vector<MPI_Aint> address(static_cast<size_t>(addresses));
    std::vector<MPI_Datatype> inner(static_cast<size_t>(types));
    if (PMPI_Type_get_contents(type, integers, addresses, types, integer.data(), address.data(),
                               inner.data()) != MPI_SUCCESS)
        return false;
    bool result = false;
    switch (combiner) {
        case MPI_COMBINER_DUP:
        case MPI_COMBINER_CONTIGUOUS:
        case MPI_COMBINER_RESIZED:
            result = in_order(inner[0], depth + 1);
            break;
        case MPI_COMBINER_VECTOR:
            result = (integer[0] <= 1 || integer[1] == integer[2]) && in_order(inner[0], depth + 1);
            break;
        case MPI_COMBINER_HVECTOR:
        case MPI_COMBINER_INDEXED:
        case MPI_COMBINER_INDEXED_BLOCK:
        case MPI_COMBINER_HINDEXED:
        case MPI_COMBINER_HINDEXED_BLOCK:
            result = blocks_in_order(combiner, integer, address, inner[0]) && in_order(inner[0], depth + 1);
            break;
        case MPI_COMBINER_SUBARRAY:  // by its definition in the order of addresses
            result = in_order(inner[0], depth + 1);
            break;
        case MPI_COMBINER_STRUCT: {
            MPI_Aint next = 0;
            result = true;
            for (int i = 0; result && i < types; ++i) {
                Layout member;
                result = address[static_cast<size_t>(i)] == next &&
                         read_layout(inner[static_cast<size_t>(i)], &member) && member.contiguous &&
                         in_order(inner[static_cast<size_t>(i)], depth + 1);
                next += integer[static_cast<size_t>(i) + 1] * static_cast<MPI_Aint>(member.element_bytes);
            }
            break;
        }
        default:
            break;
    }
    for (MPI_Datatype& member : inner) {
        int a = 0, b = 0, c = 0, kind = 0;
        if (PMPI_Type_get_envelope(member, &a, &b, &c, &kind) == MPI_SUCCESS && kind != MPI_COMBINER_NAMED)
            PMPI_Type_free(&member);
    }
    return result;
}

bool in_order(MPI_Datatype type, int depth) {
    Layout layout;
    if (depth > kDepthMax || !read_layout(type, &layout) || !layout.contiguous) return false;
    int integers = 0, addresses = 0, types = 0, combiner = 0;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS) return false;
    if (combiner == MPI_COMBINER_NAMED) return true;
    if (integers > kMembersMax || types > kMembersMax) return false;
    return derived_in_order(type, combiner, integers, addresses, types, depth);
}

bool is_named(MPI_Datatype type) {
    int a = 0, b = 0, c = 0, combiner = 0;
    return PMPI_Type_get_envelope(type, &a, &b, &c, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

// Predefined types never change, so what is known of them may be kept by handle.
constexpr size_t kKnownCount = 64;
thread_local std::array<Layout, kKnownCount> known;

size_t known_place(MPI_Datatype type) {
    uint64_t bits = 0;
    memcpy(&bits, &type, sizeof type);
    return (bits * 0x9E3779B97F4A7C15u) >> 58;
}

// A committed type of `bytes` plain bytes. MPI_DATATYPE_NULL if that fails.
MPI_Datatype bytes_type(uint64_t bytes) {
    constexpr uint64_t kPiece = uint64_t{1} << 30;
    int lengths[2] = {static_cast<int>(bytes / kPiece), static_cast<int>(bytes % kPiece)};
    MPI_Aint places[2] = {0, static_cast<MPI_Aint>(bytes / kPiece * kPiece)};
    MPI_Datatype piece = MPI_DATATYPE_NULL, whole = MPI_DATATYPE_NULL;
    if (PMPI_Type_contiguous(static_cast<int>(kPiece), MPI_BYTE, &piece) != MPI_SUCCESS) return whole;
    MPI_Datatype types[2] = {piece, MPI_BYTE};
    if (PMPI_Type_create_struct(2, lengths, places, types, &whole) == MPI_SUCCESS) PMPI_Type_commit(&whole);
    PMPI_Type_free(&piece);
    return whole;
}

// MPICH's MPI_Pack and MPI_Unpack refuse a null buffer, also where it is MPI_BOTTOM: the same elements, seen
// from another address.
class FromElsewhere {
  public:
    FromElsewhere(const void* buffer, uint64_t count, MPI_Datatype type)
        : buffer_(const_cast<void*>(buffer)), count_(static_cast<int>(count)), type_(type) {
        if (buffer) return;
        buffer_ = this;
        int all = count_;
        auto back = static_cast<MPI_Aint>(0 - reinterpret_cast<uintptr_t>(this));
        made_ = PMPI_Type_create_hindexed(1, &all, &back, type, &type_) == MPI_SUCCESS &&
                PMPI_Type_commit(&type_) == MPI_SUCCESS;
        count_ = 1;
    }
    ~FromElsewhere() {
        if (made_) PMPI_Type_free(&type_);
    }
    FromElsewhere(const FromElsewhere&) = delete;
    FromElsewhere& operator=(const FromElsewhere&) = delete;

    void* buffer() const { return buffer_; }
    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

  private:
    void* buffer_;
    int count_;
    MPI_Datatype type_;
    bool made_ = false;
};

enum class Way : uint8_t { kPack, kUnpack };

// An element of 2 GiB and more does not fit MPI_Pack's int: a message to oneself moves it.
bool convert_huge(Way way, void* element, const Layout& layout, std::byte* packed, MPI_Datatype bytes) {
    if (way == Way::kPack)
        return PMPI_Sendrecv(element, 1, layout.type, 0, 0, packed, 1, bytes, 0, 0, shim().self,
                             MPI_STATUS_IGNORE) == MPI_SUCCESS;
    return PMPI_Sendrecv(packed, 1, bytes, 0, 0, element, 1, layout.type, 0, 0, shim().self,
                         MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

// Elements whose packed size fits an int.
bool convert_some(Way way, void* elements, uint64_t count, const Layout& layout, std::byte* packed) {
    int position = 0;
    const int bytes = static_cast<int>(count * layout.element_bytes);
    FromElsewhere user(elements, count, layout.type);
    if (way == Way::kPack)
        return PMPI_Pack(user.buffer(), user.count(), user.type(), packed, bytes, &position, shim().self) ==
               MPI_SUCCESS;
    return PMPI_Unpack(packed, bytes, &position, user.buffer(), user.count(), user.type(), shim().self) ==
           MPI_SUCCESS;
}

bool convert(Way way, void* buffer, uint64_t count, const Layout& layout, std::byte* packed) {
    if (count == 0 || layout.element_bytes == 0) return true;
    const bool huge = layout.element_bytes > INT_MAX;
    MPI_Datatype bytes = huge ? bytes_type(layout.element_bytes) : MPI_DATATYPE_NULL;
    bool ok = !huge || bytes != MPI_DATATYPE_NULL;
    const uint64_t step = std::max<uint64_t>(1, kPackBytesMax / layout.element_bytes);
    for (uint64_t i = 0; ok && i < count; i += step) {
        void* elements = element_at(buffer, layout, static_cast<int64_t>(i));
        std::byte* at = packed + i * layout.element_bytes;
        ok = huge ? convert_huge(way, elements, layout, at, bytes)
                  : convert_some(way, elements, std::min(step, count - i), layout, at);
    }
    if (bytes != MPI_DATATYPE_NULL) PMPI_Type_free(&bytes);
    return ok;
}

}  // namespace

bool layout_of(MPI_Datatype type, Layout* layout) {
    if (type == MPI_DATATYPE_NULL) return false;
    Layout& entry = known[known_place(type)];
    if (entry.type == type && entry.element_bytes > 0) {
        *layout = entry;
        return true;
    }
    if (!read_layout(type, layout)) return false;
    layout->contiguous = layout->contiguous && in_order(type, 0);
    if (layout->element_bytes > 0 && is_named(type)) entry = *layout;
    return true;
}

bool pack(const void* buffer, uint64_t count, const Layout& layout, std::byte* packed) {
    return convert(Way::kPack, const_cast<void*>(buffer), count, layout, packed);
}

bool unpack(const std::byte* packed, uint64_t count, const Layout& layout, void* buffer) {
    return convert(Way::kUnpack, buffer, count, layout, const_cast<std::byte*>(packed));
}

}  // namespace longshore::mpi
