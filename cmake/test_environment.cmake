# What ctest gives all tests in their environment; it reads this file before it starts one.
#
# Ranks of Open MPI wait in MPI_Finalize for 2 s until their mpirun has heard of it. One that gets no core meanwhile takes
# their end for one without MPI_Finalize, and ends with 1 although they have ended with 0. So told, it believes them.
set(ENV{OMPI_MCA_orte_allowed_exit_without_sync} 1)  # Open MPI 4
set(ENV{PRTE_MCA_prte_allowed_exit_without_sync} 1)  # Open MPI 5
