// One rank gets no memory from the MPI for what Longshore notes on a new communicator: the job ends with the
// reason, because that rank alone would have its calls served by the MPI, and no error handler of the program
// hears of it.
#include <dlfcn.h>

#include "check.h"

namespace {

bool is_refused = false;

void on_error(MPI_Comm*, int*, ...) {
    fprintf(stderr, "the program's handler hears of it\n");
}

}  // namespace

// Before the MPI's own, because the program comes first where names are looked up.
extern "C" int PMPI_Comm_set_attr(MPI_Comm comm, int key, void* value) {
    static const auto next =
        reinterpret_cast<decltype(&PMPI_Comm_set_attr)>(dlsym(RTLD_NEXT, "PMPI_Comm_set_attr"));
    if (!is_refused) return next(comm, key, value);
    MPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
    return MPI_ERR_NO_MEM;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    is_refused = rank == 1;
    MPI_Comm made;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    is_refused = false;
    int mine = rank, all[16];
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, made);
    MPI_Comm_free(&made);
    finish("no_mark");
}
