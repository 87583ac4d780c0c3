// Elements of a datatype in the program's memory, of the host or of a device: where they lie, and how their
// own rank packs and unpacks them.
#pragma once

#include "mpi/data/datatype.h"

namespace longshore::mpi {

enum class Place : uint8_t {
    kHost,
    kDevice,
    kBoth,  // begin in one and end in the other: nothing packs these
};

// Elements of the program's, and where they stand packed.
struct Piece {
    void* user;
    std::byte* packed;
    uint64_t count;
    Layout layout;
    Place place;

    uint64_t bytes() const { return count * layout.element_bytes; }
    // Others may read and write them where they are.
    bool stays() const { return layout.contiguous && place == Place::kHost; }
    // MPI packs it: its datatype is needed.
    bool needs_type() const { return !layout.contiguous || place == Place::kHost; }
};

// Not packed anywhere yet. Looks where they lie, which costs something only once a device runtime is loaded.
Piece piece_of(const void* user, uint64_t count, const Layout& layout);

// MPI_SUCCESS or a class of errors.
int pack(const Piece& piece);
int unpack(const Piece& piece);

}  // namespace longshore::mpi
