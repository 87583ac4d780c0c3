! Every collective that Longshore carries, blocking and nonblocking, from Fortran: sentinels, absolute addresses, types
! with holes, communicators made in several ways, and every way to complete a request. Says what failed, and how often
! each collective was called by a rank.
#include "binding.h"
program fortran_collectives
    USE_MPI
    implicit none
    INCLUDE_MPI

    integer, parameter :: max_words = 40000, families = 9
    integer, parameter :: alltoall = 1, alltoallv = 2, allgather = 3, allgatherv = 4, bcast = 5, gather = 6, &
                          gatherv = 7, scatter = 8, scatterv = 9
    character(len=10), parameter :: names(families) = [character(len=10) :: 'Alltoall', 'Alltoallv', 'Allgather', &
                                                       'Allgatherv', 'Bcast', 'Gather', 'Gatherv', 'Scatter', &
                                                       'Scatterv']

    integer :: calls(families, 0:1) = 0, failures = 0
    integer :: ierr, provided, rank, ranks, root, n, length
    integer :: form = 0, tag = 0, style = 0  ! form: 0 blocking, 1 nonblocking
    integer :: send(0:max_words - 1), recv(0:max_words - 1)
    integer, allocatable, dimension(:) :: out_counts, out_places, in_counts, in_places
    HANDLE(MPI_Comm) :: comm
    HANDLE(MPI_Request) :: request
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    logical :: mpich

#if defined(BINDING_MPIFH)
    call MPI_Init(ierr)
#else
    call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
#endif
    call MPI_Get_library_version(version, length, ierr)
    mpich = index(version, 'MPICH') > 0

    call each_collective(MPI_COMM_WORLD)
    call made_communicators()
    comm = MPI_COMM_WORLD
    call look_at(comm)
    call mixed()
    call report()
    call MPI_Finalize(ierr)

contains

    subroutine look_at(of)
        HANDLE(MPI_Comm), intent(in) :: of
        comm = of
        call MPI_Comm_rank(comm, rank, ierr)
        call MPI_Comm_size(comm, ranks, ierr)
        if (allocated(out_counts)) deallocate (out_counts, out_places, in_counts, in_places)
        allocate (out_counts(0:ranks - 1), out_places(0:ranks - 1), in_counts(0:ranks - 1), in_places(0:ranks - 1))
    end subroutine

    subroutine expect(ok, what)
        logical, intent(in) :: ok
        character(len=*), intent(in) :: what
        if (ok) return
        failures = failures + 1
        print '(a,i0,3a,i0,a,i0)', 'rank ', rank, ': ', what, ' is wrong; form ', form, ', call ', tag
    end subroutine

    subroutine begin(family)
        integer, intent(in) :: family
        calls(family, form) = calls(family, form) + 1
        tag = tag + 1
    end subroutine

    integer function word(source, destination, i)
        integer, intent(in) :: source, destination, i
        word = mod(tag, 100) * 10000000 + source * 100000 + destination * 1000 + mod(i, 1000)
    end function

    subroutine put(buffer, at, count, source, destination)
        integer, intent(inout) :: buffer(0:)
        integer, intent(in) :: at, count, source, destination
        integer :: i
        do i = 0, count - 1
            buffer(at + i) = word(source, destination, i)
        end do
    end subroutine

    logical function has(at, count, source, destination)
        integer, intent(in) :: at, count, source, destination
        integer :: i
        has = .true.
        do i = 0, count - 1
            has = has .and. recv(at + i) == word(source, destination, i)
        end do
    end function

    ! Words from `source` to `destination` in the calls with a count for every rank; some blocks are empty.
    integer function words_of(source, destination)
        integer, intent(in) :: source, destination
        words_of = mod(3 * source + 5 * destination, 4) * n
    end function

    ! Two words free behind every block.
    subroutine place(counts, places)
        integer, intent(in) :: counts(0:)
        integer, intent(out) :: places(0:)
        integer :: i
        places(0) = 1
        do i = 1, size(counts) - 1
            places(i) = places(i - 1) + counts(i - 1) + 2
        end do
    end subroutine

    subroutine each_collective(on)
        HANDLE(MPI_Comm), intent(in) :: on
        integer, parameter :: sizes(3) = [1, 37, 3000]
        integer :: i
        call look_at(on)
        do i = 1, size(sizes)
            n = sizes(i)
            root = mod(i, ranks)
            do form = 0, 1
                call do_alltoall(.false.)
                call do_alltoall(.true.)
                call do_alltoallv(.false.)
                call do_alltoallv(.true.)
                call do_allgather(.false.)
                call do_allgather(.true.)
                call do_allgatherv(.false.)
                call do_allgatherv(.true.)
                call do_bcast()
                call do_gather(.false.)
                call do_gather(.true.)
                call do_gatherv()
                call do_scatter(.false.)
                call do_scatter(.true.)
                call do_scatterv()
                if (n > 1000) cycle
                call do_absolute()
                call do_holes()
                call do_parametrised()
            end do
        end do
    end subroutine

    subroutine do_alltoall(in_place)
        logical, intent(in) :: in_place
        integer :: r
        call begin(alltoall)
        recv = -1
        do r = 0, ranks - 1
            if (in_place) call put(recv, r * n, n, rank, r)
            call put(send, r * n, n, rank, r)
        end do
        if (form == 0 .and. in_place) then
            call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INTEGER, recv, n, MPI_INTEGER, comm, ierr)
        else if (form == 0) then
            call MPI_Alltoall(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, comm, ierr)
        else if (in_place) then
            call MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INTEGER, recv, n, MPI_INTEGER, comm, request, ierr)
            call finish()
        else
            call MPI_Ialltoall(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, comm, request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(r * n, n, r, rank), 'alltoall')
        end do
        call expect(recv(ranks * n) == -1, 'what is behind an alltoall')
    end subroutine

    subroutine do_alltoallv(in_place)
        logical, intent(in) :: in_place
        integer :: r
        call begin(alltoallv)
        do r = 0, ranks - 1
            out_counts(r) = words_of(rank, r)
            in_counts(r) = words_of(r, rank)
            if (in_place) in_counts(r) = words_of(min(r, rank), max(r, rank))  ! as much in as out
        end do
        call place(out_counts, out_places)
        call place(in_counts, in_places)
        recv = -1
        do r = 0, ranks - 1
            if (in_place) call put(recv, in_places(r), in_counts(r), rank, r)
            call put(send, out_places(r), out_counts(r), rank, r)
        end do
        if (form == 0 .and. in_place) then
            call MPI_Alltoallv(MPI_IN_PLACE, out_counts, out_places, MPI_INTEGER, recv, in_counts, in_places, &
                               MPI_INTEGER, comm, ierr)
        else if (form == 0) then
            call MPI_Alltoallv(send, out_counts, out_places, MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, &
                               comm, ierr)
        else if (in_place) then
            call MPI_Ialltoallv(MPI_IN_PLACE, out_counts, out_places, MPI_INTEGER, recv, in_counts, in_places, &
                                MPI_INTEGER, comm, request, ierr)
            call finish()
        else
            call MPI_Ialltoallv(send, out_counts, out_places, MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, &
                                comm, request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(in_places(r), in_counts(r), r, rank), 'alltoallv')
            call expect(recv(in_places(r) + in_counts(r)) == -1, 'what is behind a block of alltoallv')
        end do
    end subroutine

    subroutine do_allgather(in_place)
        logical, intent(in) :: in_place
        integer :: r
        call begin(allgather)
        recv = -1
        call put(send, 0, n, rank, 0)
        if (in_place) call put(recv, rank * n, n, rank, 0)
        if (form == 0 .and. in_place) then
            call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, recv, n, MPI_INTEGER, comm, ierr)
        else if (form == 0) then
            call MPI_Allgather(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, comm, ierr)
        else if (in_place) then
            call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INTEGER, recv, n, MPI_INTEGER, comm, request, ierr)
            call finish()
        else
            call MPI_Iallgather(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, comm, request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(r * n, n, r, 0), 'allgather')
        end do
    end subroutine

    subroutine do_allgatherv(in_place)
        logical, intent(in) :: in_place
        integer :: r
        call begin(allgatherv)
        do r = 0, ranks - 1
            in_counts(r) = words_of(r, 0)
        end do
        call place(in_counts, in_places)
        recv = -1
        call put(send, 0, in_counts(rank), rank, 0)
        if (in_place) call put(recv, in_places(rank), in_counts(rank), rank, 0)
        if (form == 0 .and. in_place) then
            call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, comm, ierr)
        else if (form == 0) then
            call MPI_Allgatherv(send, in_counts(rank), MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, comm, ierr)
        else if (in_place) then
            call MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, comm, request, &
                                 ierr)
            call finish()
        else
            call MPI_Iallgatherv(send, in_counts(rank), MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, comm, &
                                 request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(in_places(r), in_counts(r), r, 0), 'allgatherv')
        end do
    end subroutine

    subroutine do_bcast()
        call begin(bcast)
        recv = -1
        if (rank == root) call put(recv, 0, n, root, 0)
        if (form == 0) then
            call MPI_Bcast(recv, n, MPI_INTEGER, root, comm, ierr)
        else
            call MPI_Ibcast(recv, n, MPI_INTEGER, root, comm, request, ierr)
            call finish()
        end if
        call expect(has(0, n, root, 0), 'bcast')
    end subroutine

    subroutine do_gather(in_place)
        logical, intent(in) :: in_place
        integer :: r
        call begin(gather)
        recv = -1
        call put(send, 0, n, rank, 0)
        if (in_place .and. rank == root) call put(recv, rank * n, n, rank, 0)
        if (form == 0 .and. in_place .and. rank == root) then
            call MPI_Gather(MPI_IN_PLACE, 0, MPI_INTEGER, recv, n, MPI_INTEGER, root, comm, ierr)
        else if (form == 0) then
            call MPI_Gather(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, root, comm, ierr)
        else if (in_place .and. rank == root) then
            call MPI_Igather(MPI_IN_PLACE, 0, MPI_INTEGER, recv, n, MPI_INTEGER, root, comm, request, ierr)
            call finish()
        else
            call MPI_Igather(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, root, comm, request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            if (rank == root) call expect(has(r * n, n, r, 0), 'gather')
        end do
    end subroutine

    subroutine do_gatherv()
        integer :: r
        call begin(gatherv)
        do r = 0, ranks - 1
            in_counts(r) = words_of(r, root)
        end do
        call place(in_counts, in_places)
        recv = -1
        call put(send, 0, in_counts(rank), rank, 0)
        if (rank == root) call put(recv, in_places(rank), in_counts(rank), rank, 0)
        if (form == 0 .and. rank == root) then
            call MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, root, comm, ierr)
        else if (form == 0) then
            call MPI_Gatherv(send, in_counts(rank), MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, root, comm, &
                             ierr)
        else
            call MPI_Igatherv(send, in_counts(rank), MPI_INTEGER, recv, in_counts, in_places, MPI_INTEGER, root, comm, &
                              request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            if (rank == root) call expect(has(in_places(r), in_counts(r), r, 0), 'gatherv')
        end do
    end subroutine

    subroutine do_scatter(in_place)
        logical, intent(in) :: in_place
        integer :: r
        call begin(scatter)
        recv = -1
        do r = 0, ranks - 1
            call put(send, r * n, n, root, r)
        end do
        if (in_place .and. rank == root) call put(recv, 0, n, root, root)
        if (form == 0 .and. in_place .and. rank == root) then
            call MPI_Scatter(send, n, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, root, comm, ierr)
        else if (form == 0) then
            call MPI_Scatter(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, root, comm, ierr)
        else if (in_place .and. rank == root) then
            call MPI_Iscatter(send, n, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, root, comm, request, ierr)
            call finish()
        else
            call MPI_Iscatter(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, root, comm, request, ierr)
            call finish()
        end if
        call expect(has(0, n, root, rank), 'scatter')
    end subroutine

    subroutine do_scatterv()
        integer :: r
        call begin(scatterv)
        do r = 0, ranks - 1
            out_counts(r) = words_of(root, r)
        end do
        call place(out_counts, out_places)
        do r = 0, ranks - 1
            call put(send, out_places(r), out_counts(r), root, r)
        end do
        recv = -1
        if (form == 0) then
            call MPI_Scatterv(send, out_counts, out_places, MPI_INTEGER, recv, out_counts(rank), MPI_INTEGER, root, &
                              comm, ierr)
        else if (rank == root) then
            call put(recv, 0, out_counts(rank), root, root)
            call MPI_Iscatterv(send, out_counts, out_places, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, root, comm, &
                               request, ierr)
            call finish()
        else
            call MPI_Iscatterv(send, out_counts, out_places, MPI_INTEGER, recv, out_counts(rank), MPI_INTEGER, root, &
                               comm, request, ierr)
            call finish()
        end if
        call expect(has(0, out_counts(rank), root, rank), 'scatterv')
    end subroutine

    ! A type of n words at the absolute address of the buffer.
    subroutine make_absolute(buffer, of)
        integer, intent(inout) :: buffer(*)
        HANDLE(MPI_Datatype), intent(out) :: of
        integer(kind=MPI_ADDRESS_KIND) :: address(1)
        call MPI_Get_address(buffer, address(1), ierr)
        call MPI_Type_create_hindexed(1, [n], address, MPI_INTEGER, of, ierr)
        call MPI_Type_commit(of, ierr)
    end subroutine

    subroutine do_absolute()
        HANDLE(MPI_Datatype) :: from, to
        integer :: r
        call make_absolute(send, from)
        call make_absolute(recv, to)
        call begin(bcast)
        recv = -1
        if (rank == root) call put(recv, 0, n, root, 0)
        if (form == 0) then
            call MPI_Bcast(MPI_BOTTOM, 1, to, root, comm, ierr)
        else
            call MPI_Ibcast(MPI_BOTTOM, 1, to, root, comm, request, ierr)
            call finish()
        end if
        call expect(has(0, n, root, 0), 'bcast at an absolute address')

        call begin(alltoall)
        recv = -1
        do r = 0, ranks - 1
            call put(send, r * n, n, rank, r)
        end do
        if (form == 0) then
            call MPI_Alltoall(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, comm, ierr)
        else
            call MPI_Ialltoall(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, comm, request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(r * n, n, r, rank), 'alltoall at absolute addresses')
        end do
        call MPI_Type_free(from, ierr)
        call MPI_Type_free(to, ierr)
    end subroutine

    ! Every second word is sent; blocks arrive without holes, or the other way round.
    subroutine do_holes()
        HANDLE(MPI_Datatype) :: vector, sparse
        integer :: r, i
        call MPI_Type_vector(n, 1, 2, MPI_INTEGER, vector, ierr)
        call MPI_Type_create_resized(vector, 0_MPI_ADDRESS_KIND, int(8 * n, MPI_ADDRESS_KIND), sparse, ierr)
        call MPI_Type_commit(sparse, ierr)
        call begin(allgather)
        send = -2
        recv = -1
        do i = 0, n - 1
            send(2 * i) = word(rank, 0, i)
        end do
        if (form == 0) then
            call MPI_Allgather(send, 1, sparse, recv, n, MPI_INTEGER, comm, ierr)
        else
            call MPI_Iallgather(send, 1, sparse, recv, n, MPI_INTEGER, comm, request, ierr)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(r * n, n, r, 0), 'allgather out of a type with holes')
        end do

        call begin(gather)
        recv = -1
        call put(send, 0, n, rank, 0)
        if (form == 0) then
            call MPI_Gather(send, n, MPI_INTEGER, recv, 1, sparse, root, comm, ierr)
        else
            call MPI_Igather(send, n, MPI_INTEGER, recv, 1, sparse, root, comm, request, ierr)
            call finish()
        end if
        if (rank == root) then
            do r = 0, ranks - 1
                do i = 0, n - 1
                    call expect(recv(2 * (r * n + i)) == word(r, 0, i), 'gather into a type with holes')
                    call expect(recv(2 * (r * n + i) + 1) == -1, 'a hole')
                end do
            end do
        end if
        call MPI_Type_free(vector, ierr)
        call MPI_Type_free(sparse, ierr)
#if defined(BINDING_F08)
        if (MPI_SUBARRAYS_SUPPORTED) call do_sections()
#endif
    end subroutine

    ! Words by a type made of the one that MPI has for nine decimal digits, which nobody may free.
    subroutine do_parametrised()
        HANDLE(MPI_Datatype) :: digits, words
        call MPI_Type_create_f90_integer(9, digits, ierr)
        call MPI_Type_contiguous(n, digits, words, ierr)
        call MPI_Type_commit(words, ierr)
        call begin(bcast)
        recv = -1
        if (rank == root) call put(recv, 0, n, root, 0)
        if (form == 0) then
            call MPI_Bcast(recv, 1, words, root, comm, ierr)
        else
            call MPI_Ibcast(recv, 1, words, root, comm, request, ierr)
            call finish()
        end if
        call expect(has(0, n, root, 0), 'bcast by a type made of a parametrised one')
        call MPI_Type_free(words, ierr)
    end subroutine

#if defined(BINDING_F08)
    ! Array sections with holes are given as they are; no ierror. (MPICH 4.0.2 takes a section for one block only.)
    subroutine do_sections()
        integer :: r, i
        call begin(allgather)
        send = -2
        recv = -1
        do i = 0, n - 1
            send(2 * i) = word(rank, 0, i)
        end do
        if (form == 0) then
            call MPI_Allgather(send(0:2 * n - 2:2), n, MPI_INTEGER, recv, n, MPI_INTEGER, comm)
        else
            call MPI_Iallgather(send(0:2 * n - 2:2), n, MPI_INTEGER, recv, n, MPI_INTEGER, comm, request)
            call finish()
        end if
        do r = 0, ranks - 1
            call expect(has(r * n, n, r, 0), 'allgather of an array section')
        end do

        call begin(bcast)
        recv = -1
        do i = 0, n - 1
            if (rank == root) recv(2 * i) = word(root, 0, i)
        end do
        if (form == 0) then
            call MPI_Bcast(recv(0:2 * n - 2:2), n, MPI_INTEGER, root, comm)
        else
            call MPI_Ibcast(recv(0:2 * n - 2:2), n, MPI_INTEGER, root, comm, request)
            call finish()
        end if
        do i = 0, n - 1
            call expect(recv(2 * i) == word(root, 0, i) .and. recv(2 * i + 1) == -1, 'bcast of an array section')
        end do
    end subroutine
#endif

    subroutine made_communicators()
        HANDLE(MPI_Comm) :: made
        integer :: color
        call look_at(MPI_COMM_WORLD)
        color = 0
        if (ranks >= 4) color = rank / 2
        call MPI_Comm_split(MPI_COMM_WORLD, color, -rank, made, ierr)
        call each_collective(made)
        call MPI_Comm_free(made, ierr)
        call MPI_Comm_dup(MPI_COMM_WORLD, made, ierr)
        call each_collective(made)
        call MPI_Comm_free(made, ierr)
        call look_at(MPI_COMM_WORLD)
        call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., made, ierr)
        call each_collective(made)
        call MPI_Comm_free(made, ierr)
    end subroutine

    ! One line for a collective, as the statistics name it.
    subroutine report()
        integer :: every_failure, i
        call MPI_Allreduce(failures, every_failure, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        if (rank /= 0) return
        do i = 1, families
            print '(3a,i0)', 'called: MPI_', trim(names(i)), ' ', calls(i, 0)
            print '(3a,i0)', 'called: MPI_I', achar(iachar(names(i)(1:1)) + 32), trim(names(i)(2:)) // ' ', &
                calls(i, 1)
        end do
        if (every_failure == 0) print '(a)', 'fortran: ok'
    end subroutine

#include "requests.h"
end program
