! The three ways of a Fortran program to MPI: BINDING_MPIFH, BINDING_MODULE or BINDING_F08 is defined.
#if defined(BINDING_MPIFH)
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#elif defined(BINDING_MODULE)
#define USE_MPI use mpi
#define INCLUDE_MPI
#elif defined(BINDING_F08)
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#endif

#if defined(BINDING_F08)
#define HANDLE(kind) type(kind)
#define STATUS(name) type(MPI_Status) :: name
#define STATUSES(name, n) type(MPI_Status) :: name(n)
#define FIELD(status, field) status%field
#define FIELD_OF(statuses, i, field) statuses(i)%field
#else
#define HANDLE(kind) integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#define STATUSES(name, n) integer :: name(MPI_STATUS_SIZE, n)
#define FIELD(status, field) status(field)
#define FIELD_OF(statuses, i, field) statuses(field, i)
#endif
