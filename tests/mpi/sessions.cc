// A program that begins with a session of MPI 4, alone or before MPI_Init.      sessions [init]
#include "check.h"

#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)

PROGRAM(sessions) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank = 0, size = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "longshore", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const auto exchange = [&](MPI_Comm over) {
        int given[64], taken[64];
        for (int i = 0; i < size; ++i) given[i] = 100 * rank + i;
        MPI_Alltoall(given, 1, MPI_INT, taken, 1, MPI_INT, over);
        for (int i = 0; i < size; ++i) {
            if (taken[i] != 100 * i + rank) MPI_Abort(over, 1);
        }
    };
    exchange(comm);
    if (argc > 1) {
        MPI_Init(&argc, &argv);
        exchange(MPI_COMM_WORLD);
    }
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    if (argc > 1) MPI_Finalize();
    MPI_Session_finalize(&session);
    if (rank == 0) printf("sessions: ok\n");
    return 0;
}

#else

PROGRAM(sessions) {
    printf("sessions: ok, this MPI has none\n");
    return 0;
}

#endif
