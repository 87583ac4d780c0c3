#include "mpi/native.h"

extern "C" {
extern const void* longshore_natives[LONGSHORE_ENTRY_COUNT];
__attribute__((visibility("hidden"))) const void* longshore_natives[LONGSHORE_ENTRY_COUNT];
}

namespace longshore::mpi {
namespace {

int absent() {
    return 16;  // MPI_ERR_OTHER, in both MPIs
}

}  // namespace

void set_natives(const void* const* natives) {
    for (int i = 0; i < LONGSHORE_ENTRY_COUNT; ++i)
        longshore_natives[i] = natives[i] ? natives[i] : reinterpret_cast<const void*>(absent);
}

bool native_has(int index) {
    return longshore_natives[index] != reinterpret_cast<const void*>(absent);
}

}  // namespace longshore::mpi
