"""A program that computes and saves arrays in turns, as saver.c does:
    saver.py numpy|hdf5 FOLDER BYTES ROUNDS COMPUTE_S spin|wait MPI_LIBRARY
It knows nothing of Longshore. Of the MPI it needs the beginning and the end alone."""

import ctypes
import os
import sys
import time

import numpy

KIND, FOLDER, MODE, LIBRARY = sys.argv[1], sys.argv[2], sys.argv[6], sys.argv[7]
BYTES, ROUNDS, COMPUTE_S = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
if KIND == "hdf5":
    import h5py


def compute():
    if MODE == "wait":
        time.sleep(COMPUTE_S)
        return
    end = time.thread_time() + COMPUTE_S
    while time.thread_time() < end:
        pass


def save(path, array):
    if KIND == "numpy":
        numpy.save(path, array)
        return
    with h5py.File(path, "w") as file:
        file.create_dataset("array", data=array, track_times=False)


def main():
    ctypes.CDLL(LIBRARY, ctypes.RTLD_GLOBAL)
    mpi = ctypes.CDLL(None)
    mpi.MPI_Init(None, None)
    rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    array = numpy.random.default_rng(rank).random(BYTES // 8)
    begin, write_s = time.monotonic(), 0.0
    for number in range(ROUNDS):
        compute()
        array[0] = number
        before = time.monotonic()
        save(f"{FOLDER}/{KIND}.{rank}.{number}.{'npy' if KIND == 'numpy' else 'h5'}", array)
        write_s += time.monotonic() - before
    ended = time.monotonic()
    mpi.MPI_Finalize()
    print(f"rank {rank} write {write_s:.6f} wall {ended - begin:.6f} drain {time.monotonic() - ended:.6f}\n", end="", flush=True)


main()
