"""An mpi4py program: every collective of the families with numpy buffers (the upper-case calls) and with pickled objects
(the lower-case ones), blocking and not, on the world and on a part of it, and a pool of forked processes that read an array
of their parent's. Checks all results itself."""

import multiprocessing

import numpy
from mpi4py import MPI


def check(condition, what):
    if not condition:
        print(f"rank {MPI.COMM_WORLD.rank}: {what}: wrong", flush=True)
        MPI.COMM_WORLD.Abort(1)


def block(source, destination, count):
    return numpy.arange(count, dtype="d") + 1000 * source + destination


def exchange(comm, count):
    rank, size = comm.rank, comm.size
    send = numpy.concatenate([block(rank, d, count) for d in range(size)])
    expected = numpy.concatenate([block(s, rank, count) for s in range(size)])
    received = numpy.empty_like(send)
    comm.Alltoall(send, received)
    check((received == expected).all(), "Alltoall")
    received[:] = send
    comm.Alltoall(MPI.IN_PLACE, received)
    check((received == expected).all(), "Alltoall in place")

    counts = [count * (1 + (rank + d) % 2) for d in range(size)]
    places = numpy.cumsum([0, *counts[:-1]]).tolist()
    send = numpy.concatenate([block(rank, d, counts[d]) for d in range(size)])
    expected = numpy.concatenate([block(s, rank, counts[s]) for s in range(size)])
    received = numpy.empty_like(send)
    request = comm.Ialltoallv([send, counts, places, MPI.DOUBLE], [received, counts, places, MPI.DOUBLE])
    request.Wait()
    check((received == expected).all(), "Ialltoallv")

    # A matrix's column is a type with holes, on one side only.
    matrix = numpy.zeros((count, 3))
    matrix[:, 1] = block(rank, 0, count)
    column = MPI.DOUBLE.Create_vector(count, 1, 3).Commit()
    everything = numpy.empty(size * count)
    comm.Allgather([matrix.reshape(-1)[1:], 1, column], [everything, count, MPI.DOUBLE])
    column.Free()
    check((everything == numpy.concatenate([block(s, 0, count) for s in range(size)])).all(), "Allgather of a column")

    for root in range(size):
        whole = block(root, 7, count) if rank == root else numpy.empty(count)
        comm.Ibcast(whole, root).Wait()
        check((whole == block(root, 7, count)).all(), "Ibcast")
        gathered = numpy.empty(size * count) if rank == root else None
        comm.Gather(block(rank, 3, count), gathered, root)
        check(rank != root or (gathered == numpy.concatenate([block(s, 3, count) for s in range(size)])).all(), "Gather")
        mine = numpy.empty(count)
        comm.Scatter(gathered, mine, root)
        check((mine == block(rank, 3, count)).all(), "Scatter")

    # Pickled: lengths that only the sender knows.
    check(comm.alltoall([(rank, d, "x" * d * count) for d in range(size)]) ==
          [(s, rank, "x" * rank * count) for s in range(size)], "alltoall of objects")
    check(comm.allgather({"rank": rank}) == [{"rank": s} for s in range(size)], "allgather of objects")
    check(comm.bcast([1, "two", 3.0] if rank == 0 else None) == [1, "two", 3.0], "bcast of an object")


def sum_of(part):
    return float(gathered[part::3].sum())


def sum_in_children(comm):
    global gathered
    gathered = numpy.empty(comm.size * 100_000)
    comm.Allgather(block(comm.rank, 0, 100_000), gathered)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        check(sum(pool.map(sum_of, range(3))) == gathered.sum(), "a sum by forked processes")


def main():
    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2, -world.rank)
    grid = world.Create_cart([world.size], [True])
    for count in (0, 1, 100, 50_000):
        for comm in (world, half, grid):
            exchange(comm, count)
    half.Free()
    grid.Free()
    sum_in_children(world)
    world.Barrier()
    if world.rank == 0:
        print("numpy exchange: ok", flush=True)


main()
