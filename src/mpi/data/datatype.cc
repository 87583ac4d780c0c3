#include "mpi/data/datatype.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "mpi/shim.h"

// Of MPI 4.0: null in an MPI that is older.
extern "C" {
__attribute__((weak)) int PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count* integers,
                                                   MPI_Count* addresses, MPI_Count* large_counts,
                                                   MPI_Count* types, int* combiner);
__attribute__((weak)) int PMPI_Type_get_contents_c(MPI_Datatype type, MPI_Count integers_max,
                                                   MPI_Count addresses_max, MPI_Count large_counts_max,
                                                   MPI_Count types_max, int integers[], MPI_Aint addresses[],
                                                   MPI_Count large_counts[], MPI_Datatype types[]);
__attribute__((weak)) int PMPI_Pack_c(const void* buffer, MPI_Count count, MPI_Datatype type, void* packed,
                                      MPI_Count bytes, MPI_Count* position, MPI_Comm comm);
__attribute__((weak)) int PMPI_Unpack_c(const void* packed, MPI_Count bytes, MPI_Count* position,
                                        void* buffer, MPI_Count count, MPI_Datatype type, MPI_Comm comm);
}

namespace longshore::mpi {
namespace {

constexpr int kDepthMax = 8;         // nested types that are looked into; deeper ones are packed
constexpr int kMembersMax = 1 << 8;  // likewise: the types and numbers that one was made of
constexpr int kNumbersMax = 2 * kMembersMax;

// Of one PMPI_Pack: its sizes are int.
uint64_t pack_bytes_max() {
    static const uint64_t bytes = for_tests("LONGSHORE_INTERNAL_PACK_BYTES_MAX", INT_MAX);
    return bytes;
}

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

// How a type was made (MPI 4.0, 5.1.13). Where the MPI has the large-count forms, these are asked: the others
// are an error for types that a large-count constructor has made.
struct Envelope {
    MPI_Count integers = 0, addresses = 0, large_counts = 0, types = 0;
    int combiner = MPI_COMBINER_NAMED;

    bool read(MPI_Datatype type) {
        if (PMPI_Type_get_envelope_c)
            return PMPI_Type_get_envelope_c(type, &integers, &addresses, &large_counts, &types, &combiner) ==
                   MPI_SUCCESS;
        int integers_as_int = 0, addresses_as_int = 0, types_as_int = 0;
        const int rc =
            PMPI_Type_get_envelope(type, &integers_as_int, &addresses_as_int, &types_as_int, &combiner);
        integers = integers_as_int;
        addresses = addresses_as_int;
        types = types_as_int;
        return rc == MPI_SUCCESS;
    }

    // Nobody may free these.
    bool is_predefined() const {
        return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
               combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
    }
    // A combiner that is neither is of a later MPI: its types are packed, and they are not freed.
    bool is_derived() const {
        switch (combiner) {
            case MPI_COMBINER_DUP:
            case MPI_COMBINER_CONTIGUOUS:
            case MPI_COMBINER_VECTOR:
            case MPI_COMBINER_HVECTOR:
            case MPI_COMBINER_INDEXED:
            case MPI_COMBINER_HINDEXED:
            case MPI_COMBINER_INDEXED_BLOCK:
            case MPI_COMBINER_HINDEXED_BLOCK:
            case MPI_COMBINER_STRUCT:
            case MPI_COMBINER_SUBARRAY:
            case MPI_COMBINER_DARRAY:
            case MPI_COMBINER_RESIZED:
                return true;
            default:
                return false;
        }
    }
};

// What a derived type was made of. The numbers are the integers, then the addresses, then the large counts:
// so both forms of a constructor give the same ones (but those of subarray and darray).
class Contents {
  public:
    Contents() = default;
    ~Contents() {
        for (MPI_Count i = 0; i < types_; ++i) {
            Envelope envelope;
            if (envelope.read(inner[i]) && envelope.is_derived()) PMPI_Type_free(&inner[i]);
        }
    }
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;

    std::array<int64_t, kNumbersMax> numbers;
    std::array<MPI_Datatype, kMembersMax> inner;

    // False also if there are more of them than are looked into. Never inline: callers nest, and these arrays
    // are not to be on their stack meanwhile.
    [[gnu::noinline]] bool read(MPI_Datatype type, const Envelope& e) {
        if (e.integers + e.addresses + e.large_counts > kNumbersMax || e.types > kMembersMax) return false;
        std::array<int, kNumbersMax> integers;
        std::array<MPI_Aint, kNumbersMax> addresses;
        std::array<MPI_Count, kNumbersMax> large_counts;
        const int rc = PMPI_Type_get_contents_c
                           ? PMPI_Type_get_contents_c(type, e.integers, e.addresses, e.large_counts, e.types,
                                                      integers.data(), addresses.data(), large_counts.data(),
                                                      inner.data())
                           : PMPI_Type_get_contents(type, static_cast<int>(e.integers),
                                                    static_cast<int>(e.addresses), static_cast<int>(e.types),
                                                    integers.data(), addresses.data(), inner.data());
        if (rc != MPI_SUCCESS) return false;
        types_ = e.types;
        numbers[0] = 0;  // of a combiner that has none
        int64_t* next = std::copy_n(integers.data(), e.integers, numbers.data());
        next = std::copy_n(addresses.data(), e.addresses, next);
        std::copy_n(large_counts.data(), e.large_counts, next);
        return true;
    }

  private:
    MPI_Count types_ = 0;
};

// Do `count` blocks follow one another without a gap, the first at 0? An element of the lengths is `unit` of
// what the places count.
bool consecutive(const int64_t* places, const int64_t* lengths, bool one_length, int64_t count,
                 int64_t unit) {
    int64_t next = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t length = lengths[one_length ? 0 : i];
        if (length != 0 && places[i] != next) return false;
        next += length * unit;
    }
    return true;
}

bool member_in_order(MPI_Datatype type, int depth, Layout* member);

bool members_in_order(const Contents& contents, int64_t count, int depth) {
    const int64_t *lengths = &contents.numbers[1], *places = lengths + count;
    int64_t next = 0;
    for (int64_t i = 0; i < count; ++i) {
        Layout member;
        const MPI_Datatype type = contents.inner[static_cast<size_t>(i)];
        if (places[i] != next || !member_in_order(type, depth, &member)) return false;
        next += lengths[i] * static_cast<int64_t>(member.element_bytes);
    }
    return true;
}

// A derived type whose outer measures say "no holes": are its members in the order of their addresses? The
// numbers are the combiner's as MPI_Type_get_contents gives them.
bool derived_in_order(MPI_Datatype type, const Envelope& envelope, int depth) {
    Contents contents;
    Layout member;
    if (!contents.read(type, envelope)) return false;
    const int64_t* const numbers = contents.numbers.data();
    const int64_t count = numbers[0];
    if (envelope.combiner == MPI_COMBINER_STRUCT) return members_in_order(contents, count, depth);
    if (!member_in_order(contents.inner[0], depth, &member)) return false;
    const auto bytes = static_cast<int64_t>(member.element_bytes);
    switch (envelope.combiner) {
        case MPI_COMBINER_DUP:
        case MPI_COMBINER_CONTIGUOUS:
        case MPI_COMBINER_RESIZED:
        case MPI_COMBINER_SUBARRAY:  // by its definition in the order of addresses
            return true;
        case MPI_COMBINER_VECTOR:
            return count <= 1 || numbers[2] == numbers[1];
        case MPI_COMBINER_HVECTOR:
            return count <= 1 || numbers[2] == numbers[1] * bytes;
        case MPI_COMBINER_INDEXED:
            return consecutive(numbers + 1 + count, numbers + 1, false, count, 1);
        case MPI_COMBINER_HINDEXED:
            return consecutive(numbers + 1 + count, numbers + 1, false, count, bytes);
        case MPI_COMBINER_INDEXED_BLOCK:
            return consecutive(numbers + 2, numbers + 1, true, count, 1);
        case MPI_COMBINER_HINDEXED_BLOCK:
            return consecutive(numbers + 2, numbers + 1, true, count, bytes);
        default:
            return false;
    }
}

bool in_order(MPI_Datatype type, const Envelope& envelope, int depth) {
    return envelope.is_predefined() ||
           (envelope.is_derived() && depth <= kDepthMax && derived_in_order(type, envelope, depth));
}

bool member_in_order(MPI_Datatype type, int depth, Layout* member) {
    Envelope envelope;
    return read_layout(type, member) && member->contiguous && envelope.read(type) &&
           in_order(type, envelope, depth + 1);
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

// One element by a message to oneself. Other threads do the same meanwhile, and so does this one, where the
// MPI's progress finds an operation complete.
bool convert_by_message(Way way, void* element, const Layout& layout, std::byte* packed) {
    MPI_Datatype bytes = bytes_type(layout.element_bytes);
    if (bytes == MPI_DATATYPE_NULL) return false;
    const int tag = take_own_tag();
    const int rc = way == Way::kPack ? PMPI_Sendrecv(element, 1, layout.type, 0, tag, packed, 1, bytes, 0,
                                                     tag, shim().self, MPI_STATUS_IGNORE)
                                     : PMPI_Sendrecv(packed, 1, bytes, 0, tag, element, 1, layout.type, 0,
                                                     tag, shim().self, MPI_STATUS_IGNORE);
    give_own_tag(tag);
    PMPI_Type_free(&bytes);
    return rc == MPI_SUCCESS;
}

// An element that does not fit MPI_Pack's int.
bool convert_huge(Way way, void* element, const Layout& layout, std::byte* packed) {
    if (!PMPI_Pack_c) return convert_by_message(way, element, layout, packed);
    MPI_Count position = 0;
    const auto bytes = static_cast<MPI_Count>(layout.element_bytes);
    FromElsewhere user(element, 1, layout.type);
    const int rc =
        way == Way::kPack
            ? PMPI_Pack_c(user.buffer(), user.count(), user.type(), packed, bytes, &position, shim().self)
            : PMPI_Unpack_c(packed, bytes, &position, user.buffer(), user.count(), user.type(), shim().self);
    return rc == MPI_SUCCESS;
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
    const bool huge = layout.element_bytes > pack_bytes_max();
    const uint64_t step = std::max<uint64_t>(1, pack_bytes_max() / layout.element_bytes);
    for (uint64_t i = 0; i < count; i += step) {
        void* elements = element_at(buffer, layout, static_cast<int64_t>(i));
        std::byte* at = packed + i * layout.element_bytes;
        if (!(huge ? convert_huge(way, elements, layout, at)
                   : convert_some(way, elements, std::min(step, count - i), layout, at)))
            return false;
    }
    return true;
}

}  // namespace

bool layout_of(MPI_Datatype type, Layout* layout) {
    if (type == MPI_DATATYPE_NULL) return false;
    Layout& entry = known[known_place(type)];
    if (entry.type == type && entry.element_bytes > 0) {
        *layout = entry;
        return true;
    }
    Envelope envelope;
    if (!read_layout(type, layout) || !envelope.read(type)) return false;
    layout->contiguous = layout->contiguous && in_order(type, envelope, 0);
    layout->predefined = envelope.is_predefined();
    if (layout->element_bytes > 0 && layout->predefined) entry = *layout;
    return true;
}

bool pack(const void* buffer, uint64_t count, const Layout& layout, std::byte* packed) {
    return convert(Way::kPack, const_cast<void*>(buffer), count, layout, packed);
}

bool unpack(const std::byte* packed, uint64_t count, const Layout& layout, void* buffer) {
    return convert(Way::kUnpack, buffer, count, layout, const_cast<std::byte*>(packed));
}

}  // namespace longshore::mpi
