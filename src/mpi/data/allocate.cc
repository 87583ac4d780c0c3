// MPI_Alloc_mem: memory that the ranks and service processes of the node reach directly.
#include "mpi/entry.h"
#include "mpi/shim.h"

namespace longshore::mpi::entry {

int alloc_mem(MPI_Aint bytes, MPI_Info info, void* base) {
    const longshore_stub_api* stub = shim().stub;
    // The MPI looks at the info; what it says of where or how is not for us.
    if (bytes > 0 && info == MPI_INFO_NULL && base && stub->heap()) {
        if (void* block = stub->allocate(static_cast<size_t>(bytes), 1, 0)) {
            *static_cast<void**>(base) = block;
            return MPI_SUCCESS;
        }
    }
    return PMPI_Alloc_mem(bytes, info, base);
}

int free_mem(void* base) {
    if (!base || !shim().stub->holds(base)) return PMPI_Free_mem(base);
    shim().stub->release(base);
    return MPI_SUCCESS;
}

}  // namespace longshore::mpi::entry
