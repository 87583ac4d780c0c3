    ! The part of collectives.F90 that completes requests.

    ! Completes the open request, each time in another way.
    subroutine finish()
        HANDLE(MPI_Request) :: both(2)
        integer :: which, done, indices(2)
        logical :: flag
        STATUS(one)
        STATUSES(some, 2)
        both(1) = MPI_REQUEST_NULL
        both(2) = request
        style = mod(style + 1, 13)
        flag = .false.
        select case (style)
        case (0)
            call MPI_Wait(both(2), one, ierr)
        case (1)
            call MPI_Wait(both(2), MPI_STATUS_IGNORE, ierr)
        case (2)
            call MPI_Waitall(2, both, MPI_STATUSES_IGNORE, ierr)
        case (3)
            call MPI_Waitall(2, both, some, ierr)
        case (4)
            call MPI_Waitany(2, both, which, MPI_STATUS_IGNORE, ierr)
            call expect(which == 2 - from_zero(), 'index of MPI_Waitany')
        case (5)
            call MPI_Waitsome(2, both, done, indices, MPI_STATUSES_IGNORE, ierr)
            call expect(done == 1 .and. indices(1) == 2 - from_zero(), 'index of MPI_Waitsome')
        case (6)
            do while (.not. flag)
                call MPI_Test(both(2), flag, MPI_STATUS_IGNORE, ierr)
            end do
        case (7)
            do while (.not. flag)
                call MPI_Testall(2, both, flag, MPI_STATUSES_IGNORE, ierr)
            end do
        case (8)
            do while (.not. flag)
                call MPI_Testany(2, both, which, flag, MPI_STATUS_IGNORE, ierr)
            end do
            call expect(which == 2 - from_zero(), 'index of MPI_Testany')
        case (9)
            done = 0
            do while (done == 0)
                call MPI_Testsome(2, both, done, indices, some, ierr)
            end do
            call expect(done == 1 .and. indices(1) == 2 - from_zero(), 'index of MPI_Testsome')
        case (10)
            do while (.not. flag)
                call MPI_Testall(2, both, flag, some, ierr)
            end do
        case (11)
            do while (.not. flag)
                call MPI_Testany(2, both, which, flag, one, ierr)
            end do
            call expect(which == 2 - from_zero(), 'index of MPI_Testany')
        case (12)
            ! Not MPI_STATUS_IGNORE: Open MPI 4.1.4's layer then never says that a request is complete.
            do while (.not. flag)
                call MPI_Request_get_status(both(2), flag, one, ierr)
            end do
            flag = .false.
            call MPI_Test(both(2), flag, one, ierr)
            call expect(flag, 'test of a request that is complete')
        end select
        call expect(ierr == MPI_SUCCESS, 'return value of a wait or test')
        call expect(both(2) == MPI_REQUEST_NULL, 'completed request')
    end subroutine

    ! 1 where MPICH 4.0.2's mpi_f08 counts indices from 0, with and without a shim.
    integer function from_zero()
        from_zero = 0
#if defined(BINDING_F08)
        from_zero = merge(1, 0, mpich)
#endif
    end function

    ! Messages and collectives open at once, completed together, one by one, and some at a time.
    subroutine mixed()
        integer, parameter :: many = 5, block = 500
        HANDLE(MPI_Request) :: open(many), before(many)
        STATUSES(statuses, many)
        STATUS(one)
        integer :: gathered(0:block * 64), exchanged(0:block * 64), shared(0:block), message, left, right, way, i, r, done
        integer :: which, indices(many), arrived
        left = mod(rank + ranks - 1, ranks)
        right = mod(rank + 1, ranks)
        form = 1
        n = block
        do way = 0, 5
            call begin(allgather)
            call begin(alltoall)
            call begin(bcast)
            recv = -1
            message = -1
            do r = 0, ranks - 1
                call put(send, r * n, n, rank, r)
            end do
            shared = merge(tag, -1, rank == 0)
            call MPI_Irecv(message, 1, MPI_INTEGER, left, 70 + way, MPI_COMM_WORLD, open(1), ierr)
            call MPI_Iallgather(send, n, MPI_INTEGER, gathered, n, MPI_INTEGER, MPI_COMM_WORLD, open(2), ierr)
            call MPI_Ialltoall(send, n, MPI_INTEGER, exchanged, n, MPI_INTEGER, MPI_COMM_WORLD, open(3), ierr)
            call MPI_Ibcast(shared, n, MPI_INTEGER, 0, MPI_COMM_WORLD, open(4), ierr)
            call MPI_Isend(rank, 1, MPI_INTEGER, right, 70 + way, MPI_COMM_WORLD, open(5), ierr)
            arrived = 0
            select case (way)
            case (0)
                call MPI_Waitall(many, open, MPI_STATUSES_IGNORE, ierr)
            case (1)
                call MPI_Waitall(many, open, statuses, ierr)
                call expect(FIELD_OF(statuses, 1, MPI_SOURCE) == left, 'source by MPI_Waitall')
                call expect(FIELD_OF(statuses, 1, MPI_TAG) == 70 + way, 'tag by MPI_Waitall')
            case (2)
                do i = 1, many
                    before = open
                    call MPI_Waitany(many, open, which, one, ierr)
                    which = which + from_zero()
                    call expect(which >= 1 .and. which <= many, 'index of MPI_Waitany')
                    call expect(before(which) /= MPI_REQUEST_NULL .and. open(which) == MPI_REQUEST_NULL, &
                                'request of MPI_Waitany')
                    if (which == 1) call expect(FIELD(one, MPI_SOURCE) == left, 'source by MPI_Waitany')
                end do
            case (3)
                do while (arrived < many)
                    call MPI_Waitsome(many, open, done, indices, statuses, ierr)
                    do i = 1, done
                        if (indices(i) + from_zero() /= 1) cycle
                        call expect(FIELD_OF(statuses, i, MPI_SOURCE) == left, 'source by MPI_Waitsome')
                    end do
                    arrived = arrived + done
                end do
            case (4)
                do while (arrived < many)
                    call MPI_Testsome(many, open, done, indices, MPI_STATUSES_IGNORE, ierr)
                    arrived = arrived + done
                end do
            case (5)
                do i = many, 1, -1
                    call MPI_Wait(open(i), one, ierr)
                end do
                call expect(FIELD(one, MPI_TAG) == 70 + way, 'tag by MPI_Wait')
            end select
            do i = 1, many
                call expect(open(i) == MPI_REQUEST_NULL, 'request completed with others')
            end do
            call expect(message == left, 'message among collectives')
            recv(0:ranks * n - 1) = gathered(0:ranks * n - 1)
            do r = 0, ranks - 1
                call expect(has(r * n, n, r, 0), 'allgather among messages')
            end do
            recv(0:ranks * n - 1) = exchanged(0:ranks * n - 1)
            do r = 0, ranks - 1
                call expect(has(r * n, n, r, rank), 'alltoall among messages')
            end do
            call expect(all(shared(0:n - 1) == tag), 'bcast among messages')
        end do
    end subroutine
