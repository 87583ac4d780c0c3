"""What launchers say of jobs."""

import re

NO_FINALIZE = "exiting improperly. There are three reasons"
FINALIZED = re.compile(r"^\w+: ok$", re.MULTILINE)  # programs of tests/mpi say so behind MPI_Finalize


def status_of(status, said):
    """The exit status of an mpirun, with what it and the job have said. Ranks of Open MPI 4 wait in MPI_Finalize for 2 s until their
    mpirun has heard of it: one that gets no core meanwhile takes their end for one without MPI_Finalize. The program knows better,
    whose first rank is through with it and so has seen all others there."""
    return 0 if status == 1 and NO_FINALIZE in said and FINALIZED.search(said) else status
