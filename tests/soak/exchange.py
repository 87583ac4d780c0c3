"""Collectives that Longshore carries, of any size, every byte checked, for ever: what soak.py cuts the link of."""

import random
import statistics
import sys
import time

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
world.Set_errhandler(MPI.ERRORS_ARE_FATAL)
draw = random.Random(int(sys.argv[1]))
begin, probed, times = time.monotonic(), 0.0, []


def block(source, destination, step, count):
    return (numpy.arange(count) * 7 + source * 31 + destination * 17 + step).astype(numpy.uint8)


def check(condition, what, step):
    if not condition:
        print(f"soak: {what} {step} is wrong on rank {world.rank}", flush=True)
        world.Abort(1)


step = 0
while True:
    step += 1
    what, count, root = draw.choice("abg"), 1 + int(2 ** draw.uniform(6, 20)), draw.randrange(world.size)
    if what == "a":
        sent = numpy.concatenate([block(world.rank, to, step, count) for to in range(world.size)])
        received = numpy.empty_like(sent)
        world.Ialltoall(sent, received).Wait()
        wanted = numpy.concatenate([block(source, world.rank, step, count) for source in range(world.size)])
    elif what == "g":
        received = numpy.empty(count * world.size, dtype=numpy.uint8)
        world.Allgather(block(world.rank, 0, step, count), received)
        wanted = numpy.concatenate([block(source, 0, step, count) for source in range(world.size)])
    else:
        received = block(root, 1, step, count) if world.rank == root else numpy.empty(count, dtype=numpy.uint8)
        world.Ibcast(received, root).Wait()
        wanted = block(root, 1, step, count)
    check((received == wanted).all(), {"a": "alltoall", "g": "allgather", "b": "bcast"}[what], step)
    if step % 20 == 0:
        small, other = numpy.zeros(16384 * world.size, dtype=numpy.uint8), numpy.empty(16384 * world.size, dtype=numpy.uint8)
        since = time.monotonic()
        world.Alltoall(small, other)
        times.append(time.monotonic() - since)
    if world.rank == 0 and time.monotonic() - begin > probed + 10 and times:
        probed = time.monotonic() - begin
        print(f"soak: {probed:.0f} s, {step} operations, {statistics.median(times) * 1e6:.1f} us", flush=True)
        times = []
