#include "mpi/native/native.h"

extern "C" {
extern const void* longshore_natives[LONGSHORE_ENTRY_COUNT];
__attribute__((visibility("hidden"))) const void* longshore_natives[LONGSHORE_ENTRY_COUNT];
}

namespace longshore::mpi {
namespace {

int absent() {
    return 16;  // MPI_ERR_OTHER, in both MPIs
}

void share(int one, int other) {
    if (!native_has(one)) longshore_natives[one] = longshore_natives[other];
    if (!native_has(other)) longshore_natives[other] = longshore_natives[one];
}

}  // namespace

void set_natives(const void* const* natives) {
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i)
        longshore_natives[i] = natives[i] ? natives[i] : reinterpret_cast<const void*>(absent);
        // Open MPI 4 has the persistent collectives under MPIX_ names only: one function, two names.
#define LONGSHORE_FAMILY(Name, name, arguments) \
    share(LONGSHORE_INDEX_MPI_##Name##_init, LONGSHORE_INDEX_MPIX_##Name##_init);
#include "mpi/native/families.inc"
#undef LONGSHORE_FAMILY
}

bool native_has(int index) {
    return longshore_natives[index] != reinterpret_cast<const void*>(absent);
}

}  // namespace longshore::mpi
